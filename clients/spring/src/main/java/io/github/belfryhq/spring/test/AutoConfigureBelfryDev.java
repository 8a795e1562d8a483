package io.github.belfryhq.spring.test;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.context.annotation.Import;

/**
 * Starts {@code belfry dev} for the application context of a test class, points the client at it, and adds it as a bean
 * of type {@link io.github.belfryhq.client.testing.BelfryDev}, which sets the clock ahead. The node ends with the
 * context: test classes that share a context share the node.
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@Import(BelfryDevConfiguration.class)
public @interface AutoConfigureBelfryDev {}
