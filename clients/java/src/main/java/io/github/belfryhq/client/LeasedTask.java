package io.github.belfryhq.client;

import java.math.BigInteger;
import java.util.Map;

/**
 * A task leased to a consumer until the {@code leaseEndsAt} of its task. {@code attempt} is 1, 2, … The {@code fence}
 * rises with every grant of the task: a store that keeps the highest one shuts out stale holders.
 */
public record LeasedTask(Task task, String receipt, int attempt, BigInteger fence) {
    public String id() {
        return task.id();
    }

    public String queue() {
        return task.queue();
    }

    public Payload payload() {
        return task.payload();
    }

    public Map<String, String> labels() {
        return task.labels();
    }

    /** Returns an id that is the same for all attempts of an occurrence. */
    public String webhookId() {
        return task.webhookId();
    }
}
