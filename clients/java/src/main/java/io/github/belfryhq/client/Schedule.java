package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * A schedule as the service answers it. Absent fields are null. {@code last} is the number of the last occurrence;
 * {@code running} and {@code waiting} have numbers of occurrences.
 */
public record Schedule(
        String id,
        Repeat repeat,
        Misfire misfire,
        Duration misfireWindow,
        Overlap overlap,
        boolean paused,
        String note,
        TaskContent task,
        long last,
        Instant nextAt,
        List<Long> running,
        List<Long> waiting,
        long started,
        long passed,
        boolean ended,
        String problem,
        long revision,
        int shard,
        Instant createdAt,
        String tzData) {

    /** Which occurrences run after an outage. */
    public enum Misfire {
        LATEST,
        ALL,
        SKIP,
        OTHER
    }

    /** The fate of an occurrence that comes due while an earlier one still runs. */
    public enum Overlap {
        SKIP,
        QUEUE_ONE,
        QUEUE_ALL,
        ALLOW,
        CANCEL_PREVIOUS,
        OTHER
    }

    /** The occurrence that a call began. */
    public record Fired(String id, long number, Schedule schedule) {}

    /** The next occurrences, and those that run, wait, ended or did not run. */
    public record Occurrences(List<Next> next, List<Last> last) {}

    /** An occurrence to come. {@code clockChange} is {@code gap}, {@code first}, {@code second} or null. */
    public record Next(long number, Instant due, Instant scheduled, String local, String clockChange) {}

    /** An earlier occurrence, or {@code count} of them that did not run for one reason. Absent fields are null. */
    public record Last(
            long number,
            Long count,
            Instant scheduled,
            String origin,
            String state,
            String why,
            Instant beganAt,
            Duration late,
            Integer attempts,
            String error,
            Instant endedAt) {}
}
