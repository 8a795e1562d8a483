package io.github.belfryhq.client;

import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/**
 * A task as the service answers it. Absent fields are null. {@code revision} changes with each change of the task;
 * {@code previous} is the state of the task that a schedule call replaced; {@code created} says whether a schedule or
 * touch call made the task, and is null in other answers.
 */
public record Task(
        String id,
        String queue,
        Instant fireAt,
        Payload payload,
        String payloadBase64,
        String contentType,
        Target target,
        Retry retry,
        Duration expiresAfter,
        Map<String, String> labels,
        Window window,
        String group,
        Integer priority,
        FollowUp onDelivered,
        FollowUp onDead,
        State state,
        int attempts,
        Instant nextAttemptAt,
        String waitsFor,
        String lastError,
        long revision,
        int shard,
        Instant createdAt,
        String schedule,
        Long occurrence,
        Instant scheduled,
        String webhookId,
        Instant leaseEndsAt,
        List<Attempt> history,
        Outcome outcome,
        State previous,
        Boolean created) {

    /** Returns a task that is due this long after the receipt of the call. */
    public static NewTask in(Duration delay) {
        return new NewTask(Map.of("delay", delay));
    }

    /** Returns a task that is due at an instant. A past one is due at once. */
    public static NewTask at(Instant fireAt) {
        return new NewTask(Map.of("fire_at", fireAt));
    }

    /** Returns the payload of a task whose payload is bytes, or null. */
    public byte[] payloadBytes() {
        return payloadBase64 == null ? null : Base64.getDecoder().decode(payloadBase64);
    }

    /** The states of a task. The service may have states that this release does not know: they are {@code OTHER}. */
    public enum State {
        SCHEDULED,
        READY,
        FIRING,
        RETRYING,
        DELIVERED,
        DEAD,
        CANCELLED,
        OTHER
    }

    /**
     * The final result of a cancel. {@code CANCELLED}: no attempt was begun, and none will be. {@code STOPPED}: an attempt
     * was begun and may have been delivered; no other will be. {@code ALREADY_FIRED}: the task was delivered or dead before.
     */
    public enum Outcome {
        CANCELLED,
        STOPPED,
        ALREADY_FIRED,
        OTHER
    }

    /** An ended attempt. */
    public record Attempt(int attempt, BigInteger fence, Instant startedAt, Instant endedAt, String node, String error) {}
}
