package io.github.belfryhq.client;

import java.math.BigInteger;
import java.time.Instant;
import java.util.List;

/** A verified request. It has one task, or several if the queue sends batches. */
public record Delivery(List<DeliveredTask> tasks, Instant sentAt, byte[] body) {
    /** Returns the id of the first task. */
    public String task() {
        return tasks.get(0).task();
    }

    /** Returns the payload of the first task, or null if it is not JSON. */
    public Payload payload() {
        return tasks.get(0).payload();
    }

    /** Returns the first task's id of its occurrence, which is the same for all attempts. */
    public String webhookId() {
        return tasks.get(0).webhookId();
    }

    public int attempt() {
        return tasks.get(0).attempt();
    }

    public BigInteger fence() {
        return tasks.get(0).fence();
    }

    /**
     * One task of a delivery. {@code source} is {@code /v1/queues/} and the queue, behind {@code /v1/namespaces/} and the
     * namespace if it is not the default one. {@code payload} is null if it is not JSON. {@code stale}: in a batch, a newer
     * attempt of this task came before, and it must not be carried out.
     */
    public record DeliveredTask(
            String task,
            String webhookId,
            String source,
            int attempt,
            BigInteger fence,
            Instant due,
            Payload payload,
            boolean stale) {}
}
