package io.github.belfryhq.client;

import java.time.Instant;
import java.util.Arrays;
import java.util.Map;

/** The choice of tasks of a list, of dead letters, or of an operation. All conditions must hold. */
public final class TaskFilter extends Fields<TaskFilter> {
    /** Selects all tasks. */
    public TaskFilter() {
        this(Map.of());
    }

    TaskFilter(Map<String, Object> fields) {
        super(fields, TaskFilter::new);
    }

    public TaskFilter queue(String queue) {
        return with("queue", queue);
    }

    public TaskFilter state(Task.State... states) {
        return with("state", Arrays.asList(states));
    }

    /** Selects ids that begin with a text. */
    public TaskFilter prefix(String prefix) {
        return with("prefix", prefix);
    }

    /** Selects tasks with a label. A second call adds a condition. */
    public TaskFilter label(String name, String value) {
        return add("label", name + ":" + value);
    }

    /** Selects tasks that are due at an instant or later. */
    public TaskFilter dueAfter(Instant instant) {
        return with("due_after", instant);
    }

    public TaskFilter dueBefore(Instant instant) {
        return with("due_before", instant);
    }

    /** Selects dead letters by their ids. */
    public TaskFilter ids(String... ids) {
        return with("id", Arrays.asList(ids));
    }

    /** Orders a list by the next instants of the tasks, not by their ids. A task that moves meanwhile may come twice. */
    public TaskFilter orderByDue() {
        return with("order", "due");
    }

    /** Bounds the tasks of one page of a list, 1 to 1000, or the dead letters of a call. */
    public TaskFilter limit(int limit) {
        return with("limit", limit);
    }

    /** Includes the payloads in a list. */
    public TaskFilter includePayload() {
        return with("include", "payload");
    }
}
