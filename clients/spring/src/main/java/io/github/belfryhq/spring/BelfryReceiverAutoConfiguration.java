package io.github.belfryhq.spring;

import io.github.belfryhq.client.Codec;
import io.github.belfryhq.client.Fences;
import io.github.belfryhq.client.Receiver;
import java.util.List;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionMessage;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.autoconfigure.condition.OnPropertyListCondition;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.web.method.support.HandlerMethodArgumentResolver;
import org.springframework.web.servlet.config.annotation.WebMvcConfigurer;

/** Configures parameters of type {@link io.github.belfryhq.client.Delivery} in the controllers of Spring MVC. */
@AutoConfiguration(after = BelfryAutoConfiguration.class)
@ConditionalOnClass(WebMvcConfigurer.class)
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
public class BelfryReceiverAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    @Conditional(OnSecrets.class)
    Receiver belfryReceiver(BelfryProperties properties, Codec codec, ObjectProvider<Fences> fences) {
        BelfryProperties.Receiver settings = properties.receiver();
        Receiver.Builder builder = Receiver.builder(settings.secrets().toArray(String[]::new))
                .tolerance(settings.tolerance())
                .maxBody(Math.toIntExact(settings.maxBody().toBytes()))
                .codec(codec);
        fences.ifAvailable(builder::fences);
        return builder.build();
    }

    /** Exists without secrets too. Otherwise Spring MVC would make a delivery from the parameters of any request. */
    @Bean
    WebMvcConfigurer belfryDeliveries(ObjectProvider<Receiver> receiver) {
        return new WebMvcConfigurer() {
            @Override
            public void addArgumentResolvers(List<HandlerMethodArgumentResolver> resolvers) {
                resolvers.add(new DeliveryResolver(receiver));
            }
        };
    }

    /** Holds if there is a secret. */
    static final class OnSecrets extends OnPropertyListCondition {
        OnSecrets() {
            super("belfry.receiver.secrets", () -> ConditionMessage.forCondition("Belfry receiver"));
        }
    }
}
