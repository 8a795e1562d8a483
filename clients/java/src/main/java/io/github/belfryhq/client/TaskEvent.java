package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/**
 * One thing that happened to a task. Absent fields are null. {@code lateness} is the time from due to the begin of a first
 * attempt; {@code answer} is the error, the outcome of a cancel, or the reason of a skip.
 */
public record TaskEvent(
        String id,
        Type type,
        Instant at,
        String task,
        String queue,
        Map<String, String> labels,
        Instant due,
        Duration lateness,
        Integer attempt,
        String webhookId,
        String schedule,
        Long occurrence,
        String node,
        String answer,
        int shard) {

    /** The types of events. {@code GAP} stands for events that are no longer kept. */
    public enum Type {
        SCHEDULED,
        MOVED,
        FIRED,
        DELIVERED,
        FAILED,
        DEAD,
        CANCELLED,
        EXPIRED,
        SKIPPED,
        GAP,
        OTHER
    }
}
