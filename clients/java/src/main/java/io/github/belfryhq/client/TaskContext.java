package io.github.belfryhq.client;

import java.math.BigInteger;

/** The surroundings of a handler. */
public interface TaskContext {
    /** Returns 1, 2, … */
    int attempt();

    /** Returns a number that rises with every grant of the task. */
    BigInteger fence();

    /** Returns an id that is the same for all attempts of an occurrence. */
    String webhookId();

    /**
     * Reports whether another consumer may have the task, or whether it was scheduled anew. The handler's thread is
     * interrupted when that happens, and when the grace of a stop is over.
     */
    boolean leaseLost();
}
