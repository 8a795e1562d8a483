package io.github.belfryhq.client;

import java.time.Duration;
import java.util.List;

/** The number and the pauses of the attempts. Absent fields are null. {@code delays} stand in place of a backoff. */
public record Retry(Integer maxAttempts, Duration minBackoff, Duration maxBackoff, List<Duration> delays) {
    public static Retry attempts(int maxAttempts) {
        return new Retry(maxAttempts, null, null, null);
    }

    /** Returns retries after these pauses, one after each failed attempt. */
    public static Retry delays(Duration... delays) {
        return new Retry(null, null, null, List.of(delays));
    }

    /** Sets the shortest and the longest pause. */
    public Retry withBackoff(Duration min, Duration max) {
        return new Retry(maxAttempts, min, max, null);
    }
}
