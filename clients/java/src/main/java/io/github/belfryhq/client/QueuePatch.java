package io.github.belfryhq.client;

import java.util.Map;

/** A merge patch (RFC 7396) of a queue's policy. */
public final class QueuePatch extends QueueFields<QueuePatch> {
    /** Changes nothing yet. */
    public QueuePatch() {
        this(Map.of());
    }

    QueuePatch(Map<String, Object> fields) {
        super(fields, QueuePatch::new);
    }

    /** Restores the default of a field, by the API's names: {@code clear("retry")}, {@code clear("group_weights", "a")}. */
    public QueuePatch clear(String field, String... member) {
        return without(field, member);
    }
}
