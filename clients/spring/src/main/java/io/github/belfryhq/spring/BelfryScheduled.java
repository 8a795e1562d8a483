package io.github.belfryhq.spring;

import io.github.belfryhq.client.Schedule;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Runs a method of a bean by a schedule of Belfry. Each occurrence is one task, which one of the running instances of
 * the application handles. The start of an instance makes the schedule, or changes the rule, overlap and misfire of an
 * existing one, which stays paused if it is. The tasks are in a queue with the id of the schedule, whose policy decides
 * about retries.
 *
 * <p>The method may have parameters of {@link io.github.belfryhq.client.LeasedTask} and
 * {@link io.github.belfryhq.client.TaskContext}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
public @interface BelfryScheduled {
    /** The id of the schedule, unique in its namespace. */
    String id();

    /** Expressions of five fields, or of six with the second in front. Exactly one of cron and every is given. */
    String[] cron() default {};

    /** An interval such as {@code 15m}, in elapsed time. */
    String every() default "";

    /** A name of the IANA database, such as {@code Europe/Berlin}. Default: UTC, and not the zone of the JVM. */
    String zone() default "";

    /** The fate of an occurrence that comes due while an earlier one still runs. */
    Schedule.Overlap overlap() default Schedule.Overlap.SKIP;

    /** The occurrences that run after an outage. */
    Schedule.Misfire misfire() default Schedule.Misfire.LATEST;
}
