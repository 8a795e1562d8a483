package io.github.belfryhq.client;

import java.util.LinkedHashMap;
import java.util.Map;

/** One operation of a batch. */
public final class BatchOp extends Fields<BatchOp> {
    BatchOp(Map<String, Object> fields) {
        super(fields, BatchOp::new);
    }

    private BatchOp(String op, String id, Map<String, Object> content) {
        this(new LinkedHashMap<>(content));
        fields.put("op", op);
        if (id != null) {
            fields.put("id", id);
        }
    }

    /** Schedules a task, which has an id. */
    public static BatchOp schedule(NewTask task) {
        return new BatchOp("schedule", null, task.fields);
    }

    public static BatchOp touch(String id, Touch touch) {
        return new BatchOp("touch", id, touch.fields);
    }

    public static BatchOp patch(String id, TaskPatch patch) {
        return new BatchOp("patch", id, patch.fields);
    }

    public static BatchOp cancel(String id) {
        return new BatchOp("cancel", id, Map.of());
    }

    public static BatchOp fire(String id) {
        return new BatchOp("fire", id, Map.of());
    }

    /** Sets the idempotency key of the operation. */
    public BatchOp key(String key) {
        return with("key", key);
    }

    public BatchOp ifMatch(long revision) {
        return with("if_match", revision);
    }

    /** Makes the call only if there is no such task. */
    public BatchOp ifNoneMatch() {
        return with("if_none_match", "*");
    }
}
