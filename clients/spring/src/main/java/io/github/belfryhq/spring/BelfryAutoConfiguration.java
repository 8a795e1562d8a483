package io.github.belfryhq.spring;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.Codec;
import io.github.belfryhq.client.jackson.JacksonCodec;
import io.micrometer.observation.ObservationRegistry;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.jackson.JacksonAutoConfiguration;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.PropertyMapper;
import org.springframework.context.annotation.Bean;

/** Configures the client, and the consumers of the methods with {@link BelfryListener} and {@link BelfryScheduled}. */
@AutoConfiguration(after = JacksonAutoConfiguration.class)
@EnableConfigurationProperties(BelfryProperties.class)
public class BelfryAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    Codec belfryCodec(ObjectProvider<ObjectMapper> mapper) {
        return new JacksonCodec(mapper.getIfAvailable(ObjectMapper::new));
    }

    @Bean
    @ConditionalOnMissingBean
    Belfry belfry(
            BelfryProperties properties,
            Codec codec,
            ObjectProvider<BelfryCustomizer> customizers,
            ObjectProvider<ObservationRegistry> observations) {
        Belfry.Builder builder = Belfry.builder().codec(codec);
        observations.ifAvailable(registry -> builder.around(new ObservedCalls(registry)));
        PropertyMapper given = PropertyMapper.get().alwaysApplyingWhenNonNull();
        given.from(properties::addresses).as(addresses -> addresses.toArray(String[]::new)).to(builder::addresses);
        given.from(properties::keyFile).to(builder::keyFile);
        given.from(properties::key).to(builder::key);
        given.from(properties::namespace).to(builder::namespace);
        given.from(properties::timeout).to(builder::timeout);
        given.from(properties::attemptTimeout).to(builder::attemptTimeout);
        given.from(properties::maxAttempts).to(builder::maxAttempts);
        given.from(properties::retryBudget).to(builder::retryBudget);
        customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
        return builder.build();
    }

    @Bean
    Listeners belfryListeners(
            ConfigurableListableBeanFactory beans,
            Belfry belfry,
            BelfryProperties properties,
            ObjectProvider<ObservationRegistry> observations) {
        return new Listeners(
                beans, belfry, properties.worker(), observations.getIfAvailable(() -> ObservationRegistry.NOOP));
    }
}
