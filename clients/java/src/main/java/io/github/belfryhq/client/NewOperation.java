package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** One call on every task that a filter selects. */
public final class NewOperation extends Fields<NewOperation> {
    NewOperation(Map<String, Object> fields) {
        super(fields, NewOperation::new);
    }

    private static NewOperation of(String op, TaskFilter filter) {
        return new NewOperation(Map.of("op", op, "filter", filter));
    }

    public static NewOperation cancel(TaskFilter filter) {
        return of("cancel", filter);
    }

    public static NewOperation fire(TaskFilter filter) {
        return of("fire", filter);
    }

    public static NewOperation moveBy(TaskFilter filter, Duration by) {
        return of("move", filter).with("by", by);
    }

    public static NewOperation moveTo(TaskFilter filter, Instant to) {
        return of("move", filter).with("to", to);
    }

    /** Patches target, retry and labels. Headers of a target cannot be changed. */
    public static NewOperation patch(TaskFilter filter, TaskPatch patch) {
        return of("patch", filter).with("patch", patch);
    }

    /** Schedules dead letters again. */
    public static NewOperation replay(TaskFilter filter) {
        return of("replay", filter);
    }

    /** Removes dead letters. */
    public static NewOperation purge(TaskFilter filter) {
        return of("purge", filter);
    }

    /** Allows a filter without a condition. Refused beside one. */
    public NewOperation all() {
        return with("all", true);
    }

    public NewOperation perSecond(int tasks) {
        return with("per_second", tasks);
    }
}
