package io.github.belfryhq.client;

import java.time.Instant;
import java.util.Map;

/** An operation under way or ended. {@code state} is {@code running}, {@code done} or {@code stopped}. */
public record Operation(
        String id,
        String kind,
        String state,
        Instant beganAt,
        Instant endedAt,
        long total,
        long done,
        double percent,
        String detail,
        String cause,
        Long matched,
        Map<String, Long> outcomes) {

    /** The tasks that an operation would match. {@code complete}: all shards have answered. */
    public record Count(long matched, boolean complete) {}
}
