package io.github.belfryhq.spring;

import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.CallOption;
import java.time.Duration;
import java.util.Map;
import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;

/** Reports whether a node of the cluster is ready, and whether the consumers of the application run. */
final class BelfryHealthIndicator extends AbstractHealthIndicator {
    private static final CallOption TIMEOUT = CallOption.timeout(Duration.ofSeconds(3));

    private final Belfry belfry;
    private final Listeners listeners;

    BelfryHealthIndicator(Belfry belfry, Listeners listeners) {
        super("Belfry is not ready");
        this.belfry = belfry;
        this.listeners = listeners;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        health.up().withDetail("node", belfry.request("GET", "/readyz", null, TIMEOUT).get("node").asString());
        Map<String, String> failures = listeners.failures();
        if (!failures.isEmpty()) {
            health.down().withDetail("failures", failures);
        }
    }
}
