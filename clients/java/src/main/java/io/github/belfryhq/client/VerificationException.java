package io.github.belfryhq.client;

/** The refusal of a request that is not a delivery of the service, or a stale one. */
public final class VerificationException extends RuntimeException {
    private final Reason reason;

    VerificationException(Reason reason, String message) {
        super(message);
        this.reason = reason;
    }

    public Reason reason() {
        return reason;
    }

    /** Returns the status that answers the request. Belfry repeats refused attempts, except stale ones, which are over. */
    public int status() {
        return reason.status;
    }

    /** {@code MALFORMED}: no delivery. {@code STALE}: a newer attempt has reached the receiver before. */
    public enum Reason {
        MALFORMED(400),
        SIGNATURE(401),
        TIMESTAMP(401),
        STALE(409),
        TOO_LARGE(413);

        private final int status;

        Reason(int status) {
            this.status = status;
        }
    }
}
