package io.github.belfryhq.spring.readme;

import io.github.belfryhq.client.LeasedTask;
import io.github.belfryhq.spring.BelfryScheduled;
import org.springframework.stereotype.Component;

@Component
class Reports {
    private final Shop shop;

    Reports(Shop shop) {
        this.shop = shop;
    }

    @BelfryScheduled(id = "morning-report", cron = "0 9 * * MON-FRI", zone = "Europe/Berlin")
    void report(LeasedTask occurrence) {
        shop.report(occurrence.id()); // morning-report@1, morning-report@2, …
    }
}
