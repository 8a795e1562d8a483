package io.github.belfryhq.client;

import java.time.Duration;
import java.util.Map;

/** The task that a schedule repeats. */
public final class TaskContent extends TaskFields<TaskContent> {
    TaskContent(Map<String, Object> fields) {
        super(fields, TaskContent::new);
    }

    /** Returns the content of a task in a queue. */
    public static TaskContent of(String queue) {
        return new TaskContent(Map.of("queue", queue));
    }

    /** Lets an occurrence that has not begun this long after its time become a dead letter. */
    public TaskContent expiresAfter(Duration time) {
        return with("expires_after", time);
    }
}
