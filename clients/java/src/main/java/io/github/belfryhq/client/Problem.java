package io.github.belfryhq.client;

/**
 * A refusal of RFC 9457. {@code type} is {@code urn:belfry:problem:} and a stable name. {@code retryAfter} has seconds;
 * {@code committed} is {@code no} or {@code unknown}. Absent fields are null.
 */
public record Problem(
        String type,
        String title,
        int status,
        String detail,
        String field,
        String limit,
        String quota,
        String used,
        Long retryAfter,
        String committed,
        Task.State state,
        Integer attempts,
        Task task,
        Schedule schedule,
        Queue.Counts counts,
        Long count) {

    Problem with(int status, Long retryAfter) {
        return new Problem(type, title, status, detail, field, limit, quota, used, retryAfter, committed, state, attempts,
                task, schedule, counts, count);
    }

    static Problem of(int status, String detail) {
        return new Problem("", "", status, detail, null, null, null, null, null, null, null, null, null, null, null, null);
    }
}
