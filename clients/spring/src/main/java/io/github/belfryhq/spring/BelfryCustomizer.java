package io.github.belfryhq.spring;

import io.github.belfryhq.client.Belfry;

/** A bean that changes the builder of the client after the properties, in the order of {@code @Order}. */
@FunctionalInterface
public interface BelfryCustomizer {
    void customize(Belfry.Builder builder);
}
