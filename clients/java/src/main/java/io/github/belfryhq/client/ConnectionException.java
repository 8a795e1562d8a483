package io.github.belfryhq.client;

/** A node could not be reached, or its answer did not arrive. */
public final class ConnectionException extends BelfryException {
    ConnectionException(String message, Committed committed, Throwable cause) {
        super(message, committed, cause);
    }

    @Override
    boolean repeatable() {
        return true;
    }
}
