package io.github.belfryhq.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Consumes a queue that is pulled: the method of a bean is called for each task as it comes due. A return acknowledges
 * the task. An exception fails the attempt, and the queue's policy decides about the next one; see also
 * {@link io.github.belfryhq.client.RetryIn} and {@link io.github.belfryhq.client.Release}.
 *
 * <p>A parameter of type {@link io.github.belfryhq.client.LeasedTask} gets the task, one of type
 * {@link io.github.belfryhq.client.TaskContext} the attempt with its fence, one of type {@code byte[]} a payload of bytes, and
 * one of any other type the payload, as Jackson reads it.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
public @interface BelfryListener {
    /** The queue. Only one method of the application consumes it. */
    String queue();

    /** Tasks that are handled at once. Default: {@code belfry.worker.concurrency}. */
    String concurrency() default "";

    /** Length of a lease, which is extended while the method runs. Default: {@code belfry.worker.lease}. */
    String lease() default "";
}
