package io.github.belfryhq.client;

/** Thrown by a handler: the task goes back to its queue, and the attempt does not count. */
public final class Release extends RuntimeException {
    public Release() {
        super("the task goes back to its queue");
    }
}
