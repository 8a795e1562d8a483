package io.github.belfryhq.client;

/** The time of a call was up. The cause is the last failure before that. */
public final class BelfryTimeoutException extends BelfryException {
    BelfryTimeoutException(String message, Committed committed, Throwable cause) {
        super(message, committed, cause);
    }
}
