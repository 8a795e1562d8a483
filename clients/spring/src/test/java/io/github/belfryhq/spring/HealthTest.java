package io.github.belfryhq.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.client.testing.BelfryExtension;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

@ExtendWith(BelfryExtension.class)
class HealthTest {
    private final ApplicationContextRunner context = new ApplicationContextRunner().withConfiguration(
            AutoConfigurations.of(BelfryAutoConfiguration.class, BelfryHealthAutoConfiguration.class));

    static class Orders {
        @BelfryListener(queue = "orders", lease = "${lease}")
        void handle() {}
    }

    @Test
    void aReadyNodeIsUp(BelfryDev dev) {
        context.withPropertyValues("belfry.addresses=" + dev.url(), "lease=10s").withBean(Orders.class).run(it -> {
            Health health = it.getBean(HealthIndicator.class).health();
            assertThat(health.getStatus()).isEqualTo(Status.UP);
            assertThat(health.getDetails().get("node"))
                    .isEqualTo(dev.client().request("GET", "/readyz", null).get("node").asString());
        });
    }

    @Test
    void aRefusedQueueIsDown(BelfryDev dev) {
        context.withPropertyValues("belfry.addresses=" + dev.url(), "lease=13h").withBean(Orders.class).run(it -> {
            HealthIndicator indicator = it.getBean(HealthIndicator.class);
            await().until(() -> indicator.health().getStatus().equals(Status.DOWN));
            assertThat(indicator.health().getDetails().get("failures").toString()).contains("orders=", "lease");
        });
    }

    @Test
    void anAddressWithoutANodeIsDown() {
        context.withPropertyValues("belfry.addresses=http://127.0.0.1:1", "belfry.max-attempts=1").run(it ->
                assertThat(it.getBean(HealthIndicator.class).health().getStatus()).isEqualTo(Status.DOWN));
    }

    @Test
    void actuatorIsOptional() {
        context.withClassLoader(new FilteredClassLoader(HealthIndicator.class)).run(it ->
                assertThat(it).hasNotFailed().doesNotHaveBean("belfryHealthIndicator"));
    }
}
