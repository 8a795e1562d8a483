package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;

/** A merge patch (RFC 7396) of a task. The payload is replaced whole. */
public final class TaskPatch extends TaskFields<TaskPatch> {
    /** Changes nothing yet. */
    public TaskPatch() {
        this(Map.of());
    }

    TaskPatch(Map<String, Object> fields) {
        super(fields, TaskPatch::new);
    }

    /** Moves the task to an instant. */
    public TaskPatch at(Instant fireAt) {
        return time("fire_at", fireAt, "delay");
    }

    /** Moves the task to the instant this long after the receipt of the call. */
    public TaskPatch in(Duration delay) {
        return time("delay", delay, "fire_at");
    }

    private TaskPatch time(String name, Object value, String other) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        changed.remove(other);
        changed.put(name, value);
        return copy(changed);
    }

    /** Restores the default of a field, by the API's names: {@code clear("retry")}, {@code clear("labels", "tenant")}. */
    public TaskPatch clear(String field, String... member) {
        return without(field, member);
    }
}
