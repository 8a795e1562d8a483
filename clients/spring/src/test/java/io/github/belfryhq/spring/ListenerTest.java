package io.github.belfryhq.spring;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.LeasedTask;
import io.github.belfryhq.client.NewTask;
import io.github.belfryhq.client.ProblemException;
import io.github.belfryhq.client.Release;
import io.github.belfryhq.client.Retry;
import io.github.belfryhq.client.RetryIn;
import io.github.belfryhq.client.Task;
import io.github.belfryhq.client.TaskContext;
import io.github.belfryhq.client.Touch;
import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.spring.test.AutoConfigureBelfryDev;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;

@SpringBootTest(
        classes = ListenerTest.App.class,
        webEnvironment = SpringBootTest.WebEnvironment.NONE,
        properties = {"shop.orders=orders", "spring.main.lazy-initialization=true"})
@AutoConfigureBelfryDev
class ListenerTest {
    @Autowired
    Belfry belfry;

    @Autowired
    BelfryDev dev;

    @Autowired
    Orders orders;

    @Autowired
    MeterRegistry meters;

    record Order(int order, List<String> items) {}

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Orders.class)
    static class App {}

    static class Orders {
        private final Map<String, BlockingQueue<String>> handled = new ConcurrentHashMap<>();

        BlockingQueue<String> handled(String queue) {
            return handled.computeIfAbsent(queue, name -> new LinkedBlockingQueue<>());
        }

        @BelfryListener(queue = "${shop.orders}", concurrency = "2", lease = "5s")
        void order(Order order, LeasedTask task, TaskContext context) {
            handled("orders").add(order + " of " + task.id() + ", attempt " + context.attempt());
        }

        @BelfryListener(queue = "lists")
        void list(List<Order> orders) {
            handled("lists").add(orders.get(1).toString());
        }

        @BelfryListener(queue = "bytes")
        void bytes(byte[] bytes) {
            handled("bytes").add(new String(bytes, UTF_8));
        }

        @BelfryListener(queue = "failing")
        void fail(TaskContext context) {
            if (context.attempt() == 1) {
                throw new IllegalStateException("out of stock");
            }
            handled("failing").add("attempt " + context.attempt());
        }

        @BelfryListener(queue = "retrying")
        void retry(TaskContext context) {
            if (context.attempt() == 1) {
                throw new RetryIn(Duration.ofHours(5), "the shop is closed");
            }
            handled("retrying").add("attempt " + context.attempt());
        }

        @BelfryListener(queue = "losing", lease = "1s")
        void lose(TaskContext context) throws InterruptedException {
            handled("losing").add("attempt " + context.attempt());
            if (context.attempt() == 1) {
                new CountDownLatch(1).await();
            }
        }

        private boolean released;

        @BelfryListener(queue = "releasing", concurrency = "1")
        void release(TaskContext context) {
            if (!released) {
                released = true;
                throw new Release();
            }
            handled("releasing").add("attempt " + context.attempt());
        }
    }

    private String handled(String queue) throws InterruptedException {
        return orders.handled(queue).poll(10, TimeUnit.SECONDS);
    }

    private NewTask task(String queue) {
        return Task.in(Duration.ofHours(1)).id(queue + "-1").queue(queue);
    }

    private void until(String id, Task.State state) {
        await().untilAsserted(() -> assertThat(belfry.get(id).state()).isEqualTo(state));
    }

    private long count(String queue, String outcome) {
        Timer timer = meters.find("belfry.listener").tags("queue", queue, "outcome", outcome).timer();
        return timer == null ? 0 : timer.count();
    }

    @Test
    void parametersGetPayloadTaskAndContext() throws InterruptedException {
        belfry.schedule(task("orders").payload(new Order(7, List.of("bell"))));
        dev.advance(Duration.ofHours(1));
        assertThat(handled("orders")).isEqualTo("Order[order=7, items=[bell]] of orders-1, attempt 1");
        until("orders-1", Task.State.DELIVERED);
        assertThat(count("orders", "acknowledged")).isEqualTo(1);
    }

    @Test
    void callsAreObserved() {
        belfry.schedule(task("observed"));
        assertThatThrownBy(() -> belfry.touch("absent", new Touch())).isInstanceOf(ProblemException.NotFound.class);
        assertThat(meters.get("belfry.call").tags("call", "PUT tasks/{id}", "error", "none").timer().count())
                .isPositive();
        assertThat(meters.get("belfry.call").tags("call", "POST tasks/{id}/touch", "error", "NotFound").timer().count())
                .isEqualTo(1);
    }

    @Test
    void payloadsMayBeGenericTypes() throws InterruptedException {
        belfry.schedule(task("lists").payload(List.of(new Order(1, List.of()), new Order(2, List.of()))));
        dev.advance(Duration.ofHours(1));
        assertThat(handled("lists")).isEqualTo("Order[order=2, items=[]]");
    }

    @Test
    void payloadsMayBeBytes() throws InterruptedException {
        belfry.schedule(task("bytes").payloadBytes("ding".getBytes(UTF_8)));
        dev.advance(Duration.ofHours(1));
        assertThat(handled("bytes")).isEqualTo("ding");
    }

    @Test
    void exceptionsFailTheAttempt() throws InterruptedException {
        belfry.schedule(task("failing").retry(Retry.delays(Duration.ofHours(3))));
        dev.advance(Duration.ofHours(1));
        until("failing-1", Task.State.RETRYING);
        assertThat(belfry.get("failing-1").lastError()).contains("out of stock");
        dev.advance(Duration.ofHours(3));
        assertThat(handled("failing")).isEqualTo("attempt 2");
        until("failing-1", Task.State.DELIVERED);
        assertThat(count("failing", "failed")).isEqualTo(1);
        assertThat(count("failing", "acknowledged")).isEqualTo(1);
    }

    @Test
    void retryInChoosesTheDelay() throws InterruptedException {
        belfry.schedule(task("retrying"));
        dev.advance(Duration.ofHours(1));
        until("retrying-1", Task.State.RETRYING);
        dev.advance(Duration.ofHours(5));
        assertThat(handled("retrying")).isEqualTo("attempt 2");
        until("retrying-1", Task.State.DELIVERED);
        assertThat(count("retrying", "retried")).isEqualTo(1);
    }

    @Test
    void releaseDoesNotCount() throws InterruptedException {
        belfry.schedule(task("releasing"));
        dev.advance(Duration.ofHours(1));
        assertThat(handled("releasing")).isEqualTo("attempt 1");
        assertThat(count("releasing", "released")).isEqualTo(1);
    }

    @Test
    void aLostLeaseInterruptsTheMethod() throws InterruptedException {
        belfry.schedule(task("losing"));
        dev.advance(Duration.ofHours(1));
        assertThat(handled("losing")).isEqualTo("attempt 1");
        dev.advance(Duration.ofMinutes(1));
        assertThat(handled("losing")).isEqualTo("attempt 2");
        await().untilAsserted(() -> assertThat(count("losing", "lost")).isEqualTo(1));
    }

    @Test
    void anErrorOfConversionShowsNoValue() {
        Task made = belfry.schedule(task("orders").id("broken").payload(Map.of("order", "secret"))
                .retry(Retry.delays(Duration.ofDays(1))));
        dev.advance(Duration.ofHours(1));
        until(made.id(), Task.State.RETRYING);
        assertThat(belfry.get(made.id()).lastError()).contains("the payload is no ", "Order", "order")
                .doesNotContain("secret");
    }
}
