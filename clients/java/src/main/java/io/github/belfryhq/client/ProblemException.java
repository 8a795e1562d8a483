package io.github.belfryhq.client;

import java.util.LinkedHashMap;
import java.util.Map;

/** A refusal by the service: a problem of RFC 9457. The subclasses tell families of types apart. */
public class ProblemException extends BelfryException {
    private static final String PREFIX = "urn:belfry:problem:";
    private static final Map<String, Maker> FAMILIES = families();

    private final transient Problem problem;

    private interface Maker {
        ProblemException make(Problem problem, String call);
    }

    private static Map<String, Maker> families() {
        Map<String, Maker> families = new LinkedHashMap<>();
        add(families, Invalid::new, "malformed-json", "invalid-field", "no-delay", "too-large", "unsupported-media-type",
                "unknown-route", "method-not-allowed", "body-timeout");
        add(families, Unauthenticated::new, "unauthenticated", "too-many-attempts");
        add(families, Forbidden::new, "forbidden", "foreign-origin");
        add(families, NotFound::new, "task-not-found", "schedule-not-found", "queue-not-found", "key-not-found",
                "namespace-not-found", "token-not-found", "lease-not-found", "node-not-found", "operation-not-found",
                "calendar-not-found", "events-gone");
        add(families, Conflict::new, "wrong-state", "lease-ended", "queue-not-empty", "calendar-in-use", "queues-full",
                "key-forgotten", "impossible");
        add(families, Precondition::new, "precondition-failed");
        add(families, KeyReused::new, "key-reused");
        add(families, Quota::new, "quota-exceeded");
        add(families, Overloaded::new, "overloaded", "memory-full", "no-room");
        add(families, Unavailable::new, "not-committed", "not-ready", "outcome-unknown", "internal");
        return families;
    }

    private static void add(Map<String, Maker> families, Maker maker, String... types) {
        for (String type : types) {
            families.put(type, maker);
        }
    }

    ProblemException(Problem problem, String call) {
        super(message(problem, call), committed(problem), null);
        this.problem = problem;
    }

    /** Returns the exception of a problem's family. */
    static ProblemException of(Problem problem, String call) {
        return FAMILIES.getOrDefault(nameOf(problem), ProblemException::new).make(problem, call);
    }

    /** Returns the types that have a class. */
    static Iterable<String> types() {
        return FAMILIES.keySet();
    }

    private static String nameOf(Problem problem) {
        String type = problem.type();
        return type != null && type.startsWith(PREFIX) ? type.substring(PREFIX.length()) : "";
    }

    private static String message(Problem problem, String call) {
        String detail = problem.detail() != null ? problem.detail() : problem.title() != null ? problem.title() : "";
        String field = problem.field() != null && !detail.startsWith(problem.field()) ? problem.field() + " " : "";
        String limit = problem.limit() == null ? "" : " (limit " + problem.limit() + ")";
        return call + ": " + problem.status() + " " + field + detail + limit;
    }

    private static Committed committed(Problem problem) {
        boolean no = problem.committed() == null
                ? problem.status() < 500 || problem.status() == 507
                : problem.committed().equals("no");
        return no ? Committed.NO : Committed.UNKNOWN;
    }

    /** Returns the name of the type, such as {@code task-not-found}, or "" if the answer is not the service's. */
    public String type() {
        return nameOf(problem);
    }

    public int status() {
        return problem.status();
    }

    /** Returns the field, parameter or header that is wrong, or null. */
    public String field() {
        return problem.field();
    }

    /** Returns the limit that is exceeded, or null. */
    public String limit() {
        return problem.limit();
    }

    /** Returns all members of the problem, such as the task that is there when {@code ifNoneMatch} fails. */
    public Problem problem() {
        return problem;
    }

    @Override
    boolean repeatable() {
        return status() == 502 || status() == 503 || status() == 504
                || status() == 429 && (problem.retryAfter() != null || !type().equals("quota-exceeded"));
    }

    @Override
    boolean lasting() {
        return status() < 500 && status() != 429;
    }

    /** A field, parameter or header is wrong: see {@link #field} and {@link #limit}. */
    public static final class Invalid extends ProblemException {
        Invalid(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** The call has no key, or one that is wrong, expired or revoked. */
    public static final class Unauthenticated extends ProblemException {
        Unauthenticated(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** The key does not allow the call. */
    public static final class Forbidden extends ProblemException {
        Forbidden(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** There is no such task, schedule, queue or other thing. */
    public static final class NotFound extends ProblemException {
        NotFound(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** The state of the task or another thing does not allow the call. */
    public static final class Conflict extends ProblemException {
        Conflict(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** {@code ifMatch} or {@code ifNoneMatch} did not hold. */
    public static final class Precondition extends ProblemException {
        Precondition(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** The idempotency key was used with another call. */
    public static final class KeyReused extends ProblemException {
        KeyReused(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** A quota of the namespace or the key is used up, or does not allow the call. */
    public static final class Quota extends ProblemException {
        Quota(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** Too many calls, or no room for more tasks: nothing happened. */
    public static final class Overloaded extends ProblemException {
        Overloaded(Problem problem, String call) {
            super(problem, call);
        }
    }

    /** No answer in time from the leader, or a fault inside: see {@link #committed}. */
    public static final class Unavailable extends ProblemException {
        Unavailable(Problem problem, String call) {
            super(problem, call);
        }
    }
}
