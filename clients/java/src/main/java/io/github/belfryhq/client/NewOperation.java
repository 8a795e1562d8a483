package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** One call on every task, or on every schedule, that a filter selects. Schedules have no states and no due time. */
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

    private static NewOperation ofSchedules(String op, TaskFilter filter) {
        return of(op, filter).with("of", "schedules");
    }

    /** Pauses schedules. One that is paused already keeps its note. */
    public static NewOperation pauseSchedules(TaskFilter filter) {
        return ofSchedules("pause", filter);
    }

    public static NewOperation resumeSchedules(TaskFilter filter) {
        return ofSchedules("resume", filter);
    }

    /** Deletes schedules. Their occurrences under way go on. */
    public static NewOperation deleteSchedules(TaskFilter filter) {
        return ofSchedules("delete", filter);
    }

    /** Patches schedules: the rule, the settings, and target, retry and labels of the task. */
    public static NewOperation patchSchedules(TaskFilter filter, SchedulePatch patch) {
        return ofSchedules("patch", filter).with("patch", patch);
    }

    /** The note of a pause or a resume. */
    public NewOperation note(String note) {
        return with("note", note);
    }

    /** Allows a filter without a condition. Refused beside one. */
    public NewOperation all() {
        return with("all", true);
    }

    public NewOperation perSecond(int tasks) {
        return with("per_second", tasks);
    }
}
