package io.github.belfryhq.client;

import java.lang.System.Logger.Level;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Consumes a queue that is pulled: calls a handler for each task as it comes due. Handlers run in virtual threads where the
 * runtime has them, and in a pool otherwise. A worker runs once.
 */
public final class Worker implements AutoCloseable {
    private static final System.Logger LOGGER = System.getLogger("io.github.belfryhq.client");
    private static final int MAX_RECEIPTS = 1_000;
    private static final int MAX_SETTLES = 4; // requests at once
    private static final int MAX_REASON = 512; // bytes
    private static final long MIN_PAUSE = 20; // milliseconds
    private static final long MAX_PAUSE = 5_000;
    private static final Duration LAST_WAIT = Duration.ofSeconds(2); // for handlers interrupted at the end of the grace

    private final Belfry client;
    private final String queue;
    private final Handler handler;
    private final int concurrency;
    private final Duration lease;
    private final Duration grace;
    private final Duration wait;
    private final ExecutorService handlers;

    // Guarded by this. A change is notified.
    private final Set<Running> running = new LinkedHashSet<>();
    private final ArrayDeque<Settling> settles = new ArrayDeque<>();
    private int settlers;
    private boolean stopping;
    private Thread leasing; // the thread that waits in a lease call, or null
    private CompletableFuture<Void> ended; // null before the run

    /** Handles one task. A return acknowledges it; an exception fails the attempt. See also RetryIn and Release. */
    @FunctionalInterface
    public interface Handler {
        void handle(LeasedTask task, TaskContext context) throws Exception;
    }

    private Worker(Builder builder) {
        client = builder.client;
        queue = builder.queue;
        handler = builder.handler;
        concurrency = builder.concurrency;
        lease = builder.lease;
        grace = builder.grace;
        wait = builder.wait;
        if (concurrency < 1) {
            throw new IllegalArgumentException("concurrency is less than 1");
        }
        handlers = Threads.executor("belfry-" + queue);
    }

    public static Builder builder(Belfry client, String queue, Handler handler) {
        return new Builder(client, queue, handler);
    }

    /** The settings of a worker. */
    public static final class Builder {
        private final Belfry client;
        private final String queue;
        private final Handler handler;
        private int concurrency = 64;
        private Duration lease = Duration.ofSeconds(10);
        private Duration grace = Duration.ofSeconds(30);
        private Duration wait = Duration.ofSeconds(20);

        private Builder(Belfry client, String queue, Handler handler) {
            this.client = client;
            this.queue = queue;
            this.handler = handler;
        }

        /** Bounds the handlers that run at once. Default 64. */
        public Builder concurrency(int concurrency) {
            this.concurrency = concurrency;
            return this;
        }

        /** Sets the length of a lease, which is extended while the handler runs. Default 10 seconds. */
        public Builder lease(Duration lease) {
            this.lease = lease;
            return this;
        }

        /** Sets how long handlers may go on after a stop. Default 30 seconds. */
        public Builder grace(Duration grace) {
            this.grace = grace;
            return this;
        }

        /** Sets how long one lease call waits for a task. Default 20 seconds. */
        public Builder wait(Duration wait) {
            this.wait = wait;
            return this;
        }

        public Worker build() {
            return new Worker(this);
        }
    }

    /**
     * Runs in a thread of its own. The result ends with the run, with its exception if it fails. A failure is also logged.
     */
    public CompletableFuture<Void> start() {
        CompletableFuture<Void> end = begin();
        end.whenComplete((nothing, err) -> {
            if (err != null) {
                client.transport().log(Level.ERROR, "the worker of queue " + queue + " ends", err);
            }
        });
        new Thread(() -> run(end), "belfry-worker-" + queue).start();
        return end.copy();
    }

    /**
     * Runs until a stop, or an interrupt of this thread. Waits out failures of nodes. Throws a {@link BelfryException} if
     * the service refuses the queue or the options, and an IllegalStateException if handlers still run when the grace is
     * over.
     */
    public void run() {
        CompletableFuture<Void> end = begin();
        run(end);
        try {
            end.join();
        } catch (CompletionException err) {
            throw err.getCause() instanceof RuntimeException failure ? failure : err;
        }
    }

    private synchronized CompletableFuture<Void> begin() {
        if (ended != null) {
            throw new IllegalStateException("a worker runs once");
        }
        ended = new CompletableFuture<>();
        return ended;
    }

    private void run(CompletableFuture<Void> end) {
        try {
            consume();
            end.complete(null);
        } catch (RuntimeException | Error err) {
            end.completeExceptionally(err);
        }
    }

    private void consume() {
        ScheduledExecutorService extending = Threads.timer("belfry-leases-" + queue);
        long period = Math.max(lease.toNanos() / 4, 1);
        extending.scheduleAtFixedRate(this::extend, period, period, TimeUnit.NANOSECONDS);
        boolean interrupted = false;
        try {
            interrupted = take();
        } finally {
            try {
                interrupted |= drain();
                handlers.shutdown();
            } finally {
                extending.shutdownNow();
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    /** Takes no more tasks. The run ends once the handlers have ended and their outcomes are settled. */
    public synchronized void stop() {
        stopping = true;
        notifyAll();
        if (leasing != null) {
            leasing.interrupt();
        }
    }

    /** Stops the worker, and waits for the end of its run. A handler must not call it: it would wait for itself. */
    @Override
    public void close() {
        stop();
        CompletableFuture<Void> end;
        synchronized (this) {
            end = ended;
        }
        if (end != null) {
            end.handle((nothing, err) -> nothing).join(); // run and start tell of a failure
        }
    }

    /** Leases tasks until the stop. Returns whether another than the worker interrupted the thread. */
    private boolean take() {
        long pause = MIN_PAUSE;
        try {
            for (int free = awaitFree(); free > 0; free = awaitFree()) {
                try {
                    lease(free).forEach(this::begin);
                    pause = MIN_PAUSE;
                } catch (BelfryException err) {
                    if (err instanceof CancelledException || isStopping()) {
                        Thread.interrupted();
                        return !isStopping();
                    }
                    if (err.lasting()) {
                        throw err;
                    }
                    client.transport().log(Level.WARNING, "leasing from queue " + queue + " failed", err);
                    pause(pause);
                    pause = Math.min(2 * pause, MAX_PAUSE);
                }
            }
            return false;
        } catch (InterruptedException err) {
            return !isStopping();
        }
    }

    private List<LeasedTask> lease(int free) {
        try {
            return client.lease(queue, free, wait, lease);
        } finally {
            synchronized (this) {
                leasing = null;
                if (stopping) {
                    Thread.interrupted(); // a late interrupt of the stop must not end the grace
                }
            }
        }
    }

    /** Waits for a free handler, and announces a lease call. Returns the number of free handlers, or 0 at the stop. */
    private synchronized int awaitFree() throws InterruptedException {
        while (!stopping && running.size() >= concurrency) {
            wait();
        }
        if (stopping) {
            return 0;
        }
        leasing = Thread.currentThread();
        return Math.min(concurrency - running.size(), MAX_RECEIPTS);
    }

    private synchronized boolean isStopping() {
        return stopping;
    }

    /** Waits between two lease calls. A stop ends the wait. */
    private synchronized void pause(long milliseconds) throws InterruptedException {
        long deadline = System.nanoTime() + milliseconds * 1_000_000;
        for (long left = milliseconds; !stopping && left > 0; left = (deadline - System.nanoTime()) / 1_000_000) {
            wait(left);
        }
    }

    private void begin(LeasedTask task) {
        Running one = new Running(task, System.nanoTime() + lease.toNanos());
        synchronized (this) {
            running.add(one);
        }
        handlers.execute(() -> handle(one));
    }

    private void handle(Running one) {
        String receipt = one.task.receipt();
        Verb verb = Verb.ACK;
        Object item = receipt;
        one.enter();
        try {
            handler.handle(one.task, one);
        } catch (Release err) {
            verb = Verb.RELEASE;
        } catch (RetryIn err) {
            verb = Verb.NACK;
            item = Settlement.nackOf(receipt, err.delay(), reasonOf(err));
        } catch (Throwable err) { // an Error fails the attempt too
            if (one.lost) {
                end(one);
                return;
            }
            verb = one.stopped ? Verb.RELEASE : Verb.NACK;
            item = one.stopped ? receipt : Settlement.nackOf(receipt, null, reasonOf(err));
        } finally {
            one.leave();
        }
        settle(verb, item).whenComplete((result, err) -> {
            if (err != null) {
                client.transport().log(Level.WARNING, "an outcome of task " + one.task.id() + " was not settled", err);
            } else if (result.status() != 200) {
                LOGGER.log(Level.WARNING, () -> "belfry: the lease of task " + one.task.id() + " had ended");
            }
            end(one);
        });
    }

    private synchronized void end(Running one) {
        running.remove(one);
        notifyAll();
    }

    /** Returns the text of a failure, cut to the 512 bytes that the service keeps. */
    static String reasonOf(Throwable err) {
        String text = err.getMessage() == null ? err.getClass().getSimpleName() : err.getMessage();
        int length = Math.min(text.length(), MAX_REASON);
        while (text.substring(0, length).getBytes(StandardCharsets.UTF_8).length > MAX_REASON) {
            length--;
        }
        return text.substring(0, length);
    }

    /** Extends the leases of which half is over. A lease that cannot be extended is lost when it ends by this clock. */
    private void extend() {
        List<Running> all;
        synchronized (this) {
            all = List.copyOf(running);
        }
        long now = System.nanoTime();
        for (Running one : all) {
            long left = one.ends - now;
            if (one.lost || one.stopped || left > lease.toNanos() / 2) {
                continue;
            }
            if (left <= 0) {
                one.lose();
                continue;
            }
            settle(Verb.EXTEND, Settlement.extendOf(one.task.receipt(), lease)).whenComplete((result, err) -> {
                if (err != null) {
                    client.transport().log(Level.WARNING, "a lease of task " + one.task.id() + " was not extended", err);
                } else if (result.status() == 200 && result.outcome() == null) {
                    one.ends = now + lease.toNanos();
                } else {
                    one.lose();
                }
            });
        }
    }

    /** A kind of settlement, in the order of the results. */
    private enum Verb {
        ACK,
        NACK,
        EXTEND,
        RELEASE
    }

    private record Settling(Verb verb, Object item, CompletableFuture<SettleResult> result) {}

    /** Settles a task. Outcomes gather behind one request, so that chunks are large. An extension does not wait for it. */
    private CompletableFuture<SettleResult> settle(Verb verb, Object item) {
        Settling one = new Settling(verb, item, new CompletableFuture<>());
        boolean another;
        synchronized (this) {
            settles.add(one);
            another = settlers == 0 || verb == Verb.EXTEND && settlers < MAX_SETTLES;
            settlers += another ? 1 : 0;
        }
        if (another) {
            handlers.execute(this::flush);
        }
        return one.result();
    }

    /** Sends the outcomes that came during earlier requests, until there are none. */
    private void flush() {
        for (List<Settling> chunk = chunk(); !chunk.isEmpty(); chunk = chunk()) {
            try {
                Map<String, Object> settlement = new LinkedHashMap<>();
                for (Verb verb : Verb.values()) {
                    List<Object> items = chunk.stream().filter(one -> one.verb() == verb).map(Settling::item).toList();
                    if (!items.isEmpty()) {
                        settlement.put(Mapper.text(verb), items);
                    }
                }
                List<SettleResult> results = client.settle(queue, new Settlement(settlement));
                synchronized (this) { // the next lease call finds all handlers free that this frees
                    for (int i = 0; i < chunk.size(); i++) {
                        chunk.get(i).result().complete(results.get(i));
                    }
                }
            } catch (RuntimeException err) {
                chunk.forEach(one -> one.result().completeExceptionally(err));
            }
        }
    }

    /** Takes outcomes in the order of their results. The settler ends if there are none. */
    private List<Settling> chunk() {
        List<Settling> chunk = new ArrayList<>();
        synchronized (this) {
            while (!settles.isEmpty() && chunk.size() < MAX_RECEIPTS) {
                chunk.add(settles.poll());
            }
            settlers -= chunk.isEmpty() ? 1 : 0;
        }
        chunk.sort(Comparator.comparing(Settling::verb));
        return chunk;
    }

    /** Waits for the handlers. Returns whether the thread was interrupted, which ends the grace. */
    private synchronized boolean drain() {
        long deadline = System.nanoTime() + grace.toNanos();
        boolean over = false;
        boolean interrupted = false;
        while (!running.isEmpty()) {
            long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            if (left > 0) {
                try {
                    wait(left);
                } catch (InterruptedException err) {
                    interrupted = true;
                    deadline = System.nanoTime();
                }
            } else if (!over) {
                over = true;
                running.forEach(Running::stop);
                deadline = System.nanoTime() + LAST_WAIT.toNanos();
            } else {
                throw new IllegalStateException(running.size() + " handlers still run, and the grace is over");
            }
        }
        return interrupted;
    }

    /** A task whose handler runs. */
    private static final class Running implements TaskContext {
        private final LeasedTask task;
        private volatile long ends; // by System.nanoTime
        private volatile boolean lost;
        private volatile boolean stopped;
        private Thread thread; // guarded by this; null but while the handler runs

        Running(LeasedTask task, long ends) {
            this.task = task;
            this.ends = ends;
        }

        synchronized void enter() {
            thread = Thread.currentThread();
            if (lost || stopped) {
                thread.interrupt();
            }
        }

        synchronized void leave() {
            thread = null;
            Thread.interrupted(); // a pool's thread goes on to other tasks
        }

        void lose() {
            lost = true;
            interrupt();
        }

        void stop() {
            stopped = true;
            interrupt();
        }

        private synchronized void interrupt() {
            if (thread != null) {
                thread.interrupt();
            }
        }

        @Override
        public int attempt() {
            return task.attempt();
        }

        @Override
        public BigInteger fence() {
            return task.fence();
        }

        @Override
        public String webhookId() {
            return task.webhookId();
        }

        @Override
        public boolean leaseLost() {
            return lost;
        }
    }
}
