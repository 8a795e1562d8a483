package io.github.belfryhq.spring.test;

import io.github.belfryhq.client.testing.BelfryDev;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.test.context.DynamicPropertyRegistrar;

/** The node of {@link AutoConfigureBelfryDev}, and the properties that lead to it. */
@Configuration(proxyBeanMethods = false)
class BelfryDevConfiguration {
    @Bean
    BelfryDev belfryDev() {
        return BelfryDev.start();
    }

    /** Sets the address. Deliveries carry the time of the node's clock, which may be years ahead. */
    @Bean
    DynamicPropertyRegistrar belfryDevProperties(BelfryDev dev) {
        return registry -> {
            registry.add("belfry.addresses", dev::url);
            registry.add("belfry.key", () -> "");
            registry.add("belfry.namespace", () -> "");
            registry.add("belfry.receiver.tolerance", () -> "36500d");
        };
    }
}
