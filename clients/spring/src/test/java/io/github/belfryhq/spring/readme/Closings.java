package io.github.belfryhq.spring.readme;

import io.github.belfryhq.client.RetryIn;
import io.github.belfryhq.client.TaskContext;
import io.github.belfryhq.spring.BelfryListener;
import java.time.Duration;
import org.springframework.stereotype.Component;

@Component
class Closings {
    private final Shop shop;

    Closings(Shop shop) {
        this.shop = shop;
    }

    @BelfryListener(queue = "closings", concurrency = "8")
    void close(Close close, TaskContext context) {
        if (!shop.isOpen()) {
            throw new RetryIn(Duration.ofMinutes(5), "the shop is closed");
        }
        shop.close(close.order(), context.webhookId());
    }
}
