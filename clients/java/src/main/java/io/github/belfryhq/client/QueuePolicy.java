package io.github.belfryhq.client;

import java.util.Map;

/** The policy of a queue. An absent field is the default. */
public final class QueuePolicy extends QueueFields<QueuePolicy> {
    /** Has only defaults. */
    public QueuePolicy() {
        this(Map.of());
    }

    QueuePolicy(Map<String, Object> fields) {
        super(fields, QueuePolicy::new);
    }
}
