package io.github.belfryhq.spring;

import io.github.belfryhq.client.Belfry;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import java.util.function.Supplier;

/** Observes the calls of the client. The tag {@code call} has no id, so that its values are few. */
record ObservedCalls(ObservationRegistry observations) implements Belfry.Around {
    @Override
    public <T> T call(String name, Supplier<T> call) {
        String kind = name.replaceFirst("/v1/(namespaces/[^/]+/)?", "").replaceFirst("(?<=\\w)/[^/]+", "/{id}");
        return Observation.createNotStarted("belfry.call", observations)
                .contextualName("belfry " + kind)
                .lowCardinalityKeyValue("call", kind)
                .observe(call);
    }
}
