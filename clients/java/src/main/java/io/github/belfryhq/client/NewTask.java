package io.github.belfryhq.client;

import java.time.Duration;
import java.util.Map;

/** A task to schedule: see {@link Task#in} and {@link Task#at}. Without an id, the service makes one. */
public final class NewTask extends TaskFields<NewTask> {
    NewTask(Map<String, Object> fields) {
        super(fields, NewTask::new);
    }

    public NewTask id(String id) {
        return with("id", id);
    }

    public NewTask queue(String queue) {
        return with("queue", queue);
    }

    /** Lets a task that has not begun this long after its time become a dead letter. */
    public NewTask expiresAfter(Duration time) {
        return with("expires_after", time);
    }

    /** Moves the time of the task by a random part of this span. */
    public NewTask jitter(Duration jitter) {
        return with("jitter", jitter);
    }
}
