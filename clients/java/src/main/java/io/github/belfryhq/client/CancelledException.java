package io.github.belfryhq.client;

/** The calling thread was interrupted, which ends its call. The thread stays marked as interrupted. */
public final class CancelledException extends BelfryException {
    CancelledException(String message, Committed committed) {
        super(message, committed, null);
    }

    @Override
    boolean lasting() {
        return true;
    }
}
