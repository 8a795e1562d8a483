package io.github.belfryhq.client;

import java.time.Duration;

/** Thrown by a handler: the attempt failed, and the next one comes after this delay in place of the backoff. */
public final class RetryIn extends RuntimeException {
    private final Duration delay;

    public RetryIn(Duration delay, String reason) {
        super(reason);
        this.delay = delay;
    }

    public Duration delay() {
        return delay;
    }
}
