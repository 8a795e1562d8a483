package io.github.belfryhq.client;

/** An answer that is not the service's: a redirect, or a body that cannot be read. */
public final class ProtocolException extends BelfryException {
    ProtocolException(String message, Committed committed) {
        super(message, committed, null);
    }
}
