package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** A queue as the service answers it. Absent fields are null: their defaults hold. */
public record Queue(
        String queue,
        Target target,
        Retry retry,
        Integer maxInFlight,
        Double maxPerSecond,
        Integer batchMax,
        boolean paused,
        Duration keepDone,
        Duration keepDead,
        Window window,
        FollowUp onDelivered,
        FollowUp onDead,
        Integer groupInFlight,
        Double groupPerSecond,
        Boolean fifo,
        Boolean fair,
        Map<String, Integer> groupWeights,
        Signing signing,
        Boolean windowOpen,
        Instant windowOpensAt,
        Counts counts,
        List<Broken> broken) {

    /** Digests of the secrets. */
    public record Signing(List<String> secrets) {}

    /** Tasks by state. {@code due1m}, {@code due1h} and {@code due1d} are due within a minute, an hour and a day. */
    public record Counts(
            long scheduled,
            long ready,
            long firing,
            long leased,
            long retrying,
            long delivered,
            long dead,
            long cancelled,
            Instant oldestOverdue,
            long due1m,
            long due1h,
            long due1d) {}

    /** A path of a receiver whose attempts fail one after another. */
    public record Broken(String receiver, String path, Instant since, String lastError, long waiting) {}
}
