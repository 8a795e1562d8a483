package io.github.belfryhq.client;

import java.time.Duration;

/** A setting of one call. */
public final class CallOption {
    /** The header that carries the option, or null. */
    final String header;

    final String value;
    final Duration timeout;

    private CallOption(String header, String value, Duration timeout) {
        this.header = header;
        this.value = value;
        this.timeout = timeout;
    }

    /** Bounds the call with all its repeats. */
    public static CallOption timeout(Duration timeout) {
        return new CallOption(null, null, timeout);
    }

    /** Sets the key that makes repeats one call. A stored one makes the call safe to repeat after a restart. */
    public static CallOption idempotencyKey(String key) {
        return new CallOption("idempotency-key", key, null);
    }

    /** Makes the call only if the task, or the schedule, still has this revision. */
    public static CallOption ifMatch(long revision) {
        return new CallOption("if-match", "\"" + revision + "\"", null);
    }

    /** Makes the call only if there is no such task or schedule, tombstones included: the way to schedule once. */
    public static CallOption ifNoneMatch() {
        return new CallOption("if-none-match", "*", null);
    }
}
