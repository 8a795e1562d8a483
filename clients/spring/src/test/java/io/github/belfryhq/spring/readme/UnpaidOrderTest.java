package io.github.belfryhq.spring.readme;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.belfryhq.client.Task;
import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.spring.test.AutoConfigureBelfryDev;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;

@SpringBootTest
@AutoConfigureBelfryDev
class UnpaidOrderTest {
    @Autowired
    Orders orders;

    @Autowired
    Shop shop;

    @Autowired
    BelfryDev dev;

    @Test
    void anUnpaidOrderIsClosedAfter48Hours() throws InterruptedException {
        orders.placed(1);
        orders.placed(2);
        assertThat(orders.paid(2)).isEqualTo(Task.Outcome.CANCELLED);
        dev.advance(Duration.ofHours(48));
        assertThat(shop.closed.poll(10, TimeUnit.SECONDS)).isEqualTo(1);
    }
}
