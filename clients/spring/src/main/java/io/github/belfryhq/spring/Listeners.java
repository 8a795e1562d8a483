package io.github.belfryhq.spring;

import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.CallOption;
import io.github.belfryhq.client.NewSchedule;
import io.github.belfryhq.client.ProblemException;
import io.github.belfryhq.client.Repeat;
import io.github.belfryhq.client.SchedulePatch;
import io.github.belfryhq.client.TaskContent;
import io.github.belfryhq.client.Worker;
import io.micrometer.observation.ObservationRegistry;
import java.lang.annotation.Annotation;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.context.SmartLifecycle;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.MethodIntrospector.MetadataLookup;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.util.StringUtils;

/**
 * The consumers of all methods with {@link BelfryListener} and {@link BelfryScheduled}. They start when all beans are
 * there, and end before any other bean.
 */
final class Listeners implements SmartLifecycle {
    private static final Duration PAUSE = Duration.ofSeconds(5); // after a failure

    private final ConfigurableListableBeanFactory beans;
    private final Belfry belfry;
    private final BelfryProperties.Worker defaults;
    private final ObservationRegistry observations;
    private volatile Map<String, Consumer> consumers = Map.of(); // by queue; empty unless running

    Listeners(
            ConfigurableListableBeanFactory beans,
            Belfry belfry,
            BelfryProperties.Worker defaults,
            ObservationRegistry observations) {
        this.beans = beans;
        this.belfry = belfry;
        this.defaults = defaults;
        this.observations = observations;
    }

    @Override
    public boolean isAutoStartup() {
        return defaults.enabled();
    }

    /** Makes the schedules, and starts the consumers. The application does not start without its schedules. */
    @Override
    public void start() {
        Map<String, Consumer> found = new LinkedHashMap<>();
        each(BelfryListener.class, (method, listener) ->
                add(found, text(listener.queue()), method, text(listener.concurrency()), text(listener.lease())));
        each(BelfryScheduled.class, (method, schedule) -> {
            add(found, text(schedule.id()), method, "", "");
            register(text(schedule.id()), schedule);
        });
        found.values().forEach(Consumer::start);
        consumers = found;
    }

    private record BeanMethod(Object bean, Method method) {}

    /** Calls a function for each method of a bean with an annotation. */
    private <A extends Annotation> void each(Class<A> annotation, BiConsumer<BeanMethod, A> found) {
        for (String name : beans.getBeanNamesForType(Object.class, false, false)) {
            Class<?> type = AutoProxyUtils.determineTargetClass(beans, name);
            if (type == null
                    || ScopedProxyUtils.isScopedTarget(name)
                    || !AnnotationUtils.isCandidateClass(type, annotation)) {
                continue;
            }
            MetadataLookup<A> lookup = method -> AnnotatedElementUtils.findMergedAnnotation(method, annotation);
            MethodIntrospector.selectMethods(type, lookup).forEach((method, attributes) -> {
                Object bean = beans.getBean(name);
                Method invocable = AopUtils.selectInvocableMethod(method, bean.getClass());
                found.accept(new BeanMethod(bean, invocable), attributes);
            });
        }
    }

    private String text(String attribute) {
        return beans.resolveEmbeddedValue(attribute);
    }

    private void add(Map<String, Consumer> found, String queue, BeanMethod target, String concurrency, String lease) {
        ListenerMethod handler = new ListenerMethod(queue, target.bean(), target.method(), observations);
        Worker.Builder worker = Worker.builder(belfry, queue, handler)
                .concurrency(concurrency.isEmpty() ? defaults.concurrency() : Integer.parseInt(concurrency))
                .lease(lease.isEmpty() ? defaults.lease() : DurationStyle.detectAndParse(lease))
                .grace(defaults.grace());
        if (found.put(queue, new Consumer(queue, worker::build, PAUSE)) != null) {
            throw new IllegalStateException("two methods consume queue " + queue + "; one is " + target.method());
        }
    }

    /** Makes a schedule, or changes the existing one, whose pause and note stay. */
    private void register(String id, BelfryScheduled schedule) {
        String[] cron = Arrays.stream(schedule.cron()).map(this::text).toArray(String[]::new);
        String every = text(schedule.every());
        String zone = text(schedule.zone());
        if ((cron.length == 0) == every.isEmpty()) {
            throw new IllegalStateException("schedule " + id + " must have cron or every, and not both");
        }
        Repeat rule = every.isEmpty() ? Repeat.cron(cron) : Repeat.every(DurationStyle.detectAndParse(every));
        Repeat repeat = StringUtils.hasText(zone) ? rule.timeZone(zone) : rule;
        TaskContent task = TaskContent.of(id);
        try {
            NewSchedule made = NewSchedule.of(repeat, task).overlap(schedule.overlap()).misfire(schedule.misfire());
            belfry.schedules().put(id, made, CallOption.ifNoneMatch());
        } catch (ProblemException.Precondition exists) {
            SchedulePatch patch = new SchedulePatch().repeat(repeat).task(task)
                    .overlap(schedule.overlap()).misfire(schedule.misfire())
                    .clear("repeat", every.isEmpty() ? "every" : "cron");
            belfry.schedules().patch(id, StringUtils.hasText(zone) ? patch : patch.clear("repeat", "time_zone"));
        }
    }

    /** Ends the consumers, with the grace for methods that run. */
    @Override
    public void stop() {
        consumers.values().forEach(Consumer::stop);
        try {
            for (Consumer consumer : consumers.values()) {
                consumer.join();
            }
        } catch (InterruptedException err) {
            Thread.currentThread().interrupt();
        }
        consumers = Map.of();
    }

    @Override
    public boolean isRunning() {
        return !consumers.isEmpty();
    }

    /** Returns the failures of consumers by their queues. */
    Map<String, String> failures() {
        Map<String, String> failures = new LinkedHashMap<>();
        consumers.forEach((queue, consumer) -> {
            String failure = consumer.failure();
            if (failure != null) {
                failures.put(queue, failure);
            }
        });
        return failures;
    }
}
