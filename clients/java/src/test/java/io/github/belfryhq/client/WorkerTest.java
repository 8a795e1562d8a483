package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.belfryhq.client.testing.BelfryDev;
import io.github.belfryhq.client.testing.BelfryExtension;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(BelfryExtension.class)
@Timeout(30)
class WorkerTest {
    private final CountDownLatch begun = new CountDownLatch(1);
    private final CountDownLatch finish = new CountDownLatch(1);

    private Worker.Builder worker(BelfryDev belfry) {
        belfry.client().schedule(Task.in(Duration.ZERO).id("t").queue("q"));
        return Worker.builder(belfry.client(), "q", (task, context) -> {
            begun.countDown();
            finish.await();
        });
    }

    @Test
    void aStopWaitsForTheHandlers(BelfryDev belfry) throws Exception {
        Worker worker = worker(belfry).build();
        CompletableFuture<Void> end = worker.start();
        begun.await();
        worker.stop();
        finish.countDown();
        end.get();
        assertEquals(Task.State.DELIVERED, belfry.client().get("t").state());
        assertThrows(IllegalStateException.class, worker::start);
    }

    @Test
    void theEndOfTheGraceInterruptsHandlersAndGivesTheirTasksBack(BelfryDev belfry) throws Exception {
        Worker worker = worker(belfry).grace(Duration.ofMillis(50)).build();
        worker.start();
        begun.await();
        worker.close();
        Task task = belfry.client().get("t");
        assertEquals(Task.State.READY, task.state());
        assertEquals(0, task.attempts());
    }

    @Test
    void aHandlerThatNeverEndsFailsTheRun(BelfryDev belfry) throws Exception {
        belfry.client().schedule(Task.in(Duration.ZERO).id("t").queue("q"));
        Worker worker = Worker.builder(belfry.client(), "q", (task, context) -> {
                    begun.countDown();
                    while (finish.getCount() > 0) {
                        try {
                            finish.await();
                        } catch (InterruptedException err) {
                            continue; // a handler that ignores interrupts
                        }
                    }
                })
                .grace(Duration.ZERO)
                .build();
        CompletableFuture<Void> end = worker.start();
        begun.await();
        worker.stop();
        assertInstanceOf(
                IllegalStateException.class, assertThrows(ExecutionException.class, end::get).getCause());
        finish.countDown();
    }

    @Test
    void anErrorOfAHandlerFailsTheAttempt(BelfryDev belfry) throws Exception {
        belfry.client().schedule(Task.in(Duration.ZERO).id("t").queue("q").retry(Retry.attempts(1)));
        try (Worker worker = Worker.builder(belfry.client(), "q", (task, context) -> {
                    finish.countDown();
                    throw new AssertionError("broken");
                })
                .build()) {
            worker.start();
            finish.await();
        }
        Task task = belfry.client().get("t");
        assertEquals(Task.State.DEAD, task.state());
        assertEquals("broken", task.lastError());
    }

    @Test
    void aRefusalOfTheQueueEndsTheRun(BelfryDev belfry) {
        Worker worker = worker(belfry).lease(Duration.ofDays(1)).build();
        assertEquals("lease", assertThrows(ProblemException.Invalid.class, worker::run).field());
    }

    @Test
    void anInterruptStopsTheRun(BelfryDev belfry) throws Exception {
        Worker worker = worker(belfry).build();
        CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            worker.run();
            interrupted.complete(Thread.currentThread().isInterrupted());
        });
        thread.start();
        begun.await();
        finish.countDown();
        thread.interrupt();
        assertTrue(interrupted.get(10, TimeUnit.SECONDS));
        assertEquals(Task.State.DELIVERED, belfry.client().get("t").state());
    }
}
