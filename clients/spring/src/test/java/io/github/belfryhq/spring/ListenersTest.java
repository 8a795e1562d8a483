package io.github.belfryhq.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.github.belfryhq.client.LeasedTask;
import io.github.belfryhq.client.Repeat;
import io.github.belfryhq.client.Schedule;
import io.github.belfryhq.client.Task;
import io.github.belfryhq.client.TaskFilter;
import io.github.belfryhq.client.Worker;
import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.client.testing.BelfryExtension;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Scope;
import org.springframework.context.annotation.ScopedProxyMode;

/** Starts and ends applications. */
@ExtendWith(BelfryExtension.class)
class ListenersTest {
    private final List<ConfigurableApplicationContext> applications = new ArrayList<>();

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class App {}

    private ConfigurableApplicationContext start(BelfryDev dev, Class<?> bean, String... properties) {
        ConfigurableApplicationContext application = new SpringApplicationBuilder(App.class, bean)
                .web(WebApplicationType.NONE)
                .properties("belfry.addresses=" + dev.url(), "spring.main.banner-mode=off")
                .properties(properties)
                .run();
        applications.add(application);
        return application;
    }

    @AfterEach
    void close() {
        applications.forEach(ConfigurableApplicationContext::close);
    }

    static class Report {
        final BlockingQueue<String> handled = new LinkedBlockingQueue<>();

        @BelfryScheduled(id = "report", cron = "${cron}", zone = "${zone:}")
        void report(LeasedTask task) {
            handled.add(task.id());
        }
    }

    static class Poll {
        @BelfryScheduled(
                id = "report", every = "15m", overlap = Schedule.Overlap.QUEUE_ONE, misfire = Schedule.Misfire.ALL)
        void poll() {}
    }

    @Test
    void instancesShareTheOccurrences(BelfryDev dev) throws InterruptedException {
        Report one = start(dev, Report.class, "cron=0 * * * *").getBean(Report.class);
        Report other = start(dev, Report.class, "cron=0 * * * *").getBean(Report.class);
        for (int i = 1; i <= 5; i++) {
            int ran = i;
            dev.advance(Duration.ofHours(1));
            await().until(() -> one.handled.size() + other.handled.size() == ran
                    && dev.client().schedules().get("report").running().isEmpty());
        }
        List<String> all = new ArrayList<>(one.handled);
        all.addAll(other.handled);
        assertThat(all).containsExactlyInAnyOrder("report@1", "report@2", "report@3", "report@4", "report@5");
        assertThat(dev.client().schedules().get("report").passed()).isZero();
    }

    @Test
    void aRestartChangesTheRuleAndKeepsThePause(BelfryDev dev) {
        start(dev, Report.class, "cron=0 9 * * *", "zone=Europe/Berlin");
        assertThat(dev.client().schedules().get("report").repeat().json())
                .isEqualTo(Repeat.cron("0 9 * * *").timeZone("Europe/Berlin").json());
        dev.client().schedules().pause("report", "until Monday");

        start(dev, Report.class, "cron=0 10 * * *");
        Schedule cron = dev.client().schedules().get("report");
        assertThat(cron.repeat().json()).isEqualTo(Repeat.cron("0 10 * * *").timeZone("UTC").json());
        assertThat(cron.paused()).isTrue();
        assertThat(cron.note()).isEqualTo("until Monday");

        start(dev, Poll.class);
        Schedule interval = dev.client().schedules().get("report");
        assertThat(interval.repeat().json().get("every").asString()).isEqualTo("15m");
        assertThat(interval.repeat().json().get("cron").isNull()).isTrue();
        assertThat(interval.overlap()).isEqualTo(Schedule.Overlap.QUEUE_ONE);
        assertThat(interval.misfire()).isEqualTo(Schedule.Misfire.ALL);

        start(dev, Report.class, "cron=0 10 * * *");
        Schedule again = dev.client().schedules().get("report");
        assertThat(again.repeat().json()).isEqualTo(cron.repeat().json());
        assertThat(again.overlap()).isEqualTo(Schedule.Overlap.SKIP);
    }

    @Test
    void anIntervalGoesOnAfterARestart(BelfryDev dev) {
        start(dev, Poll.class);
        Schedule first = dev.client().schedules().get("report");
        dev.advance(Duration.ofMinutes(10));
        start(dev, Poll.class);
        assertThat(dev.client().schedules().get("report").nextAt()).isEqualTo(first.nextAt());
    }

    static class Slow {
        final CountDownLatch began = new CountDownLatch(1);
        final CountDownLatch end = new CountDownLatch(1);

        @BelfryListener(queue = "slow")
        void handle() throws InterruptedException {
            began.countDown();
            end.await();
        }
    }

    @Test
    void aStopLetsMethodsEnd(BelfryDev dev) throws InterruptedException {
        ConfigurableApplicationContext application = start(dev, Slow.class);
        Slow slow = application.getBean(Slow.class);
        dev.client().schedule(Task.in(Duration.ZERO).id("slow-1").queue("slow"));
        slow.began.await();
        Thread closer = new Thread(application::close);
        closer.start();
        await().until(() -> closer.getState() == Thread.State.WAITING);
        assertThat(dev.client().get("slow-1").state()).isEqualTo(Task.State.FIRING);
        slow.end.countDown();
        closer.join();
        assertThat(dev.client().get("slow-1").state()).isEqualTo(Task.State.DELIVERED);
        assertThat(dev.client().get("slow-1").attempts()).isEqualTo(1);
    }

    @Test
    void aStopInterruptsMethodsAfterTheGrace(BelfryDev dev) throws InterruptedException {
        ConfigurableApplicationContext application = start(dev, Slow.class, "belfry.worker.grace=1ms");
        Slow slow = application.getBean(Slow.class);
        dev.client().schedule(Task.in(Duration.ZERO).id("slow-1").queue("slow"));
        slow.began.await();
        application.close();
        assertThat(slow.end.getCount()).isEqualTo(1);
        assertThat(dev.client().get("slow-1").state()).isNotEqualTo(Task.State.DELIVERED);
    }

    @Test
    void workersCanBeOff(BelfryDev dev) {
        start(dev, Report.class, "belfry.worker.enabled=false");
        assertThat(dev.client().schedules().list(new TaskFilter())).isEmpty();
    }

    @Test
    void aRefusedConsumerTriesAgain(BelfryDev dev) throws InterruptedException {
        AtomicInteger workers = new AtomicInteger();
        CountDownLatch handled = new CountDownLatch(1);
        Consumer consumer = new Consumer(
                "orders",
                () -> Worker.builder(dev.client(), "orders", (task, context) -> handled.countDown())
                        .lease(Duration.ofHours(workers.getAndIncrement() == 0 ? 13 : 1)) // 12 hours are the limit
                        .build(),
                Duration.ofMillis(20));
        consumer.start();
        dev.client().schedule(Task.in(Duration.ZERO).queue("orders"));
        handled.await();
        consumer.stop();
        consumer.join();
        assertThat(workers).hasValue(2);
    }

    @Scope(proxyMode = ScopedProxyMode.TARGET_CLASS)
    static class Proxied {
        private final BlockingQueue<String> handled = new LinkedBlockingQueue<>();

        @BelfryListener(queue = "proxied")
        void handle(LeasedTask task) {
            handled.add(task.id());
        }

        String next() throws InterruptedException {
            return handled.poll(10, TimeUnit.SECONDS);
        }
    }

    @Test
    void beansMayBeProxies(BelfryDev dev) throws InterruptedException {
        Proxied proxied = start(dev, Proxied.class).getBean(Proxied.class);
        dev.client().schedule(Task.in(Duration.ZERO).id("proxied-1").queue("proxied"));
        assertThat(proxied.next()).isEqualTo("proxied-1");
    }

    static class Twice {
        @BelfryListener(queue = "orders")
        void one() {}

        @BelfryListener(queue = "orders")
        void other() {}
    }

    static class Returning {
        @BelfryListener(queue = "orders")
        int handle() {
            return 1;
        }
    }

    static class Ruleless {
        @BelfryScheduled(id = "report")
        void handle() {}
    }

    @Test
    void mistakesFailTheStart(BelfryDev dev) {
        assertThatThrownBy(() -> start(dev, Twice.class))
                .rootCause().hasMessageContaining("two methods consume queue orders");
        assertThatThrownBy(() -> start(dev, Returning.class))
                .rootCause().hasMessageContaining("Returning.handle() must return void");
        assertThatThrownBy(() -> start(dev, Ruleless.class))
                .rootCause().hasMessageContaining("schedule report must have cron or every");
        assertThatThrownBy(() -> start(dev, Report.class, "cron=61 * * * *"))
                .rootCause().hasMessageContaining("PUT /v1/schedules/report: 400 repeat");
    }
}
