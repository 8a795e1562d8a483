package io.github.belfryhq.spring;

import io.github.belfryhq.client.Worker;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;

/**
 * The thread that consumes a queue until it is stopped. A worker ends when the service refuses it, as while a key is
 * replaced: another one starts after a pause.
 */
final class Consumer {
    private static final Log LOG = LogFactory.getLog(Consumer.class);

    private final String queue;
    private final Supplier<Worker> workers;
    private final Duration pause;
    private final CountDownLatch stopping = new CountDownLatch(1);
    private final Thread thread;
    private volatile Worker worker;
    private volatile Failure failure; // of the last worker that failed, or null

    private record Failure(String text, long nanoTime) {}

    Consumer(String queue, Supplier<Worker> workers, Duration pause) {
        this.queue = queue;
        this.workers = workers;
        this.pause = pause;
        this.thread = new Thread(this::run, "belfry-" + queue);
    }

    void start() {
        thread.start();
    }

    private void run() {
        try {
            do {
                worker = workers.get();
                if (stopping.getCount() > 0) {
                    runOnce(worker);
                }
            } while (!stopping.await(pause.toMillis(), TimeUnit.MILLISECONDS));
        } catch (InterruptedException err) {
            LOG.warn("The consumer of queue " + queue + " was interrupted, and has ended");
        }
    }

    private void runOnce(Worker worker) {
        try {
            worker.run();
        } catch (RuntimeException err) {
            failure = new Failure(err.toString(), System.nanoTime());
            LOG.warn("The consumer of queue " + queue + " failed. Unless it stops, it starts again in " + pause, err);
        }
    }

    /** Returns the failure of the last two pauses, or null. */
    String failure() {
        Failure last = failure;
        return last != null && System.nanoTime() - last.nanoTime() < 2 * pause.toNanos() ? last.text() : null;
    }

    /** Takes no more tasks. */
    void stop() {
        stopping.countDown();
        Worker last = worker;
        if (last != null) {
            last.stop();
        }
    }

    /** Waits until the methods have ended, or their grace is over. */
    void join() throws InterruptedException {
        thread.join();
    }
}
