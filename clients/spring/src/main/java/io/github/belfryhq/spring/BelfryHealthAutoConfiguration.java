package io.github.belfryhq.spring;

import io.github.belfryhq.client.Belfry;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** Configures the health indicator {@code belfry} of an application with Actuator. */
@AutoConfiguration(after = BelfryAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
@ConditionalOnEnabledHealthIndicator("belfry")
public class BelfryHealthAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean(name = "belfryHealthIndicator")
    HealthIndicator belfryHealthIndicator(Belfry belfry, Listeners listeners) {
        return new BelfryHealthIndicator(belfry, listeners);
    }
}
