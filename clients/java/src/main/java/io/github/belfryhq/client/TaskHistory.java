package io.github.belfryhq.client;

import java.time.Instant;
import java.util.List;

/**
 * The events of a task that are kept. {@code more}: older ones exist beyond the limit. {@code complete}: none is missing
 * since {@code completeSince}; {@code missing} names the nodes that did not answer.
 */
public record TaskHistory(
        String task, List<TaskEvent> events, boolean more, boolean complete, Instant completeSince, List<String> missing) {}
