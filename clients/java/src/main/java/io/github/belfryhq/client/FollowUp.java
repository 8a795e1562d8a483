package io.github.belfryhq.client;

import java.time.Duration;
import java.util.Map;

/**
 * A task that is made by the log entry that ends another one, with the id {@code {id}@delivered} or {@code {id}@dead}.
 * Without a payload, it gets a TaskOutcome of the API.
 */
public final class FollowUp extends TaskFields<FollowUp> {
    FollowUp(Map<String, Object> fields) {
        super(fields, FollowUp::new);
    }

    /** Returns a follow-up in a queue. */
    public static FollowUp of(String queue) {
        return new FollowUp(Map.of("queue", queue));
    }

    /** Sets the time from the end of the other task. */
    public FollowUp delay(Duration delay) {
        return with("delay", delay);
    }

    /** Lets a follow-up that has not begun this long after its time become a dead letter. */
    public FollowUp expiresAfter(Duration time) {
        return with("expires_after", time);
    }

    /** Adds the first 16 KiB of the receiver's answer to the outcome. */
    public FollowUp keepAnswer() {
        return with("keep_answer", true);
    }
}
