package io.github.belfryhq.client;

/**
 * The result of one receipt: 200, 404, or 409 if the lease had ended. The outcome is {@code replaced} if the task was
 * scheduled anew, and null otherwise.
 */
public record SettleResult(String receipt, String id, int status, String outcome, Problem problem) {}
