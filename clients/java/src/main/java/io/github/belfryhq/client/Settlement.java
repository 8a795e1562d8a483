package io.github.belfryhq.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** Ends or extends leases by their receipts. Results come in the order ack, nack, extend, release. */
public final class Settlement extends Fields<Settlement> {
    /** Settles nothing yet. */
    public Settlement() {
        this(Map.of());
    }

    Settlement(Map<String, Object> fields) {
        super(fields, Settlement::new);
    }

    /** The task is done. */
    public Settlement ack(String receipt) {
        return add("ack", receipt);
    }

    /** The attempt failed. Without a delay, the backoff counts. Delay and reason may be null. */
    public Settlement nack(String receipt, Duration delay, String reason) {
        return add("nack", nackOf(receipt, delay, reason));
    }

    /** The lease ends this long from now. */
    public Settlement extend(String receipt, Duration lease) {
        return add("extend", extendOf(receipt, lease));
    }

    /** The task goes back, and the attempt does not count. */
    public Settlement release(String receipt) {
        return add("release", receipt);
    }

    static Object nackOf(String receipt, Duration delay, String reason) {
        Map<String, Object> nack = new LinkedHashMap<>();
        nack.put("receipt", receipt);
        if (delay != null) {
            nack.put("delay", delay);
        }
        if (reason != null) {
            nack.put("reason", reason);
        }
        return nack;
    }

    static Object extendOf(String receipt, Duration lease) {
        return Map.of("receipt", receipt, "lease", lease);
    }
}
