package io.github.belfryhq.client;

/** Any failure of a call. */
public class BelfryException extends RuntimeException {
    private final Committed committed;

    BelfryException(String message, Committed committed, Throwable cause) {
        super(message, cause);
        this.committed = committed;
    }

    /** Reports whether the failed call was carried out. */
    public Committed committed() {
        return committed;
    }

    /** Reports whether the client repeats the call by itself. */
    boolean repeatable() {
        return false;
    }

    /** Reports whether the failure ends a worker or a stream of events, which wait out any other one. */
    boolean lasting() {
        return false;
    }

    /** Whether a call that failed was carried out. A refusal of a 4xx is always {@code NO}. */
    public enum Committed {
        NO,
        UNKNOWN
    }
}
