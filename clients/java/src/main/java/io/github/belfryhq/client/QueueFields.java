package io.github.belfryhq.client;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** The settings of a queue. */
public abstract class QueueFields<T extends QueueFields<T>> extends Fields<T> {
    QueueFields(Map<String, Object> fields, Function<Map<String, Object>, T> copy) {
        super(fields, copy);
    }

    /** Sets the target of tasks without one. Absent, consumers pull them. */
    public T target(Target target) {
        return with("target", target);
    }

    public T retry(Retry retry) {
        return with("retry", retry);
    }

    /** Bounds the attempts and leases under way in the whole cluster. */
    public T maxInFlight(int limit) {
        return with("max_in_flight", limit);
    }

    /** Bounds the attempts and leases begun in a second in the whole cluster. */
    public T maxPerSecond(double limit) {
        return with("max_per_second", limit);
    }

    /** Sets the number of tasks in one request, each with its own result. */
    public T batchMax(int limit) {
        return with("batch_max", limit);
    }

    public T paused(boolean paused) {
        return with("paused", paused);
    }

    /** Sets the retention of delivered and cancelled tasks. */
    public T keepDone(Duration time) {
        return with("keep_done", time);
    }

    /** Sets the retention of dead letters. */
    public T keepDead(Duration time) {
        return with("keep_dead", time);
    }

    public T window(Window window) {
        return with("window", window);
    }

    /** Bounds the attempts and leases of one group. */
    public T groupInFlight(int limit) {
        return with("group_in_flight", limit);
    }

    /** Bounds the attempts and leases of one group that begin in a second. */
    public T groupPerSecond(double limit) {
        return with("group_per_second", limit);
    }

    /** Lets the tasks of a group run one at a time, in the order of their times. */
    public T fifo(boolean fifo) {
        return with("fifo", fifo);
    }

    /** Lets groups take turns by weight. */
    public T fair(boolean fair) {
        return with("fair", fair);
    }

    public T groupWeight(String group, int weight) {
        return with("group_weights", group, weight);
    }

    /** Sets at most two secrets, the newest first: {@code whsec_} and base64. A digest from an answer keeps its secret. */
    public T secrets(String... secrets) {
        return with("signing", Map.of("secrets", List.of(secrets)));
    }

    /** Sets the task that follows a delivery, for tasks without one of their own. */
    public T onDelivered(FollowUp next) {
        return with("on_delivered", next);
    }

    /** Sets the task that follows a dead letter, for tasks without one of their own. */
    public T onDead(FollowUp next) {
        return with("on_dead", next);
    }
}
