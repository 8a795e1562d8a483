package io.github.belfryhq.client;

import com.sun.management.OperatingSystemMXBean;
import io.github.belfryhq.client.testing.BelfryDev;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;

/**
 * Measures the client against loops of java.net.http alone, by turns. BELFRY_ADDR names a cluster; without it, the bench
 * starts `belfry dev`. ROUNDS and SECONDS set the number of turns and the length of each.
 */
final class Bench {
    private static final int CALLERS = 64;
    private static final int ROUNDS = setting("ROUNDS", 15);
    private static final int SECONDS = setting("SECONDS", 1);
    private static final String TASK = "{\"delay\":\"48h\",\"payload\":{\"order\":1042}}";

    private final String base;
    private final Belfry belfry;
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Executor threads = Threads.executor("bench");

    private Bench(String base) {
        this.base = base;
        belfry = Belfry.builder().addresses(base).build();
    }

    private static int setting(String name, int absent) {
        String value = System.getenv(name);
        return value == null ? absent : Integer.parseInt(value);
    }

    private interface Call {
        void make(String id) throws Exception;
    }

    private interface Consumer {
        void consume(String queue, int count) throws Exception;
    }

    private interface Turn {
        Measure measure() throws Exception;
    }

    /** A rate, and the processor time of this process in microseconds for each call or task. */
    private record Measure(double perSecond, double micros) {}

    /** A begun measurement. */
    private record Stopwatch(long began, long cpu) {
        private static final OperatingSystemMXBean PROCESS =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

        static Stopwatch start() {
            return new Stopwatch(System.nanoTime(), PROCESS.getProcessCpuTime());
        }

        Measure stop(long count) {
            long time = System.nanoTime() - began;
            return new Measure(count * 1e9 / time, (PROCESS.getProcessCpuTime() - cpu) / 1e3 / count);
        }
    }

    /** Makes a call again and again by all callers. */
    private Measure calls(Call call) {
        String run = UUID.randomUUID().toString();
        Stopwatch watch = Stopwatch.start();
        LongAdder calls = new LongAdder();
        CompletableFuture<?>[] callers = IntStream.range(0, CALLERS)
                .mapToObj(caller -> CompletableFuture.runAsync(
                        () -> {
                            for (int n = 0; System.nanoTime() - watch.began() < SECONDS * 1_000_000_000L; n++) {
                                try {
                                    call.make("bench-" + run + "-" + caller + "-" + n);
                                } catch (Exception err) {
                                    throw new IllegalStateException(err);
                                }
                                calls.increment();
                            }
                        },
                        threads))
                .toArray(CompletableFuture[]::new);
        CompletableFuture.allOf(callers).join();
        return watch.stop(calls.sum());
    }

    private record Order(int order) {}

    private void byClient(String id) {
        belfry.schedule(Task.in(Duration.ofHours(48)).id(id).payload(new Order(1042)));
    }

    private void byHttp(String id) throws Exception {
        send("PUT", "/v1/tasks/" + id, TASK);
    }

    private Json send(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + path))
                .header("content-type", "application/json")
                .method(method, BodyPublishers.ofString(body))
                .build();
        HttpResponse<String> answer = http.send(request, BodyHandlers.ofString());
        if (answer.statusCode() / 100 != 2) {
            throw new IllegalStateException(answer.body());
        }
        return Json.parse(answer.body());
    }

    /** Fills a queue with due tasks, and lets a consumer handle them. */
    private Measure tasks(int count, Consumer consumer) throws Exception {
        String queue = "bench-" + UUID.randomUUID();
        belfry.queues().put(queue, new QueuePolicy().paused(true).keepDone(Duration.ofSeconds(1)));
        List<BatchOp> tasks = IntStream.range(0, count)
                .mapToObj(i -> BatchOp.schedule(Task.in(Duration.ZERO).id(queue + "-" + i).queue(queue).payload(Map.of("i", i))))
                .toList();
        for (BatchResult result : belfry.batch(tasks)) {
            if (result.error() != null) {
                throw result.error();
            }
        }
        belfry.queues().resume(queue);
        Stopwatch watch = Stopwatch.start();
        consumer.consume(queue, count);
        return watch.stop(count);
    }

    private void workByClient(String queue, int count) {
        AtomicInteger left = new AtomicInteger(count);
        Worker[] worker = {null};
        worker[0] = Worker.builder(belfry, queue, (task, context) -> {
                    if (left.decrementAndGet() == 0) {
                        worker[0].stop();
                    }
                })
                .concurrency(CALLERS)
                .build();
        worker[0].run();
    }

    /** Leases up to 64 tasks, and acknowledges them while the next ones are leased. */
    private void workByHttp(String queue, int count) throws Exception {
        CompletableFuture<Void> settling = CompletableFuture.completedFuture(null);
        for (int left = count; left > 0; ) {
            String demand = "{\"max\":" + CALLERS + ",\"wait\":\"1s\",\"lease\":\"10s\"}";
            Json tasks = send("POST", "/v1/queues/" + queue + "/lease", demand).get("tasks");
            left -= tasks.size();
            settling.join();
            List<Object> receipts = new ArrayList<>();
            for (int i = 0; i < tasks.size(); i++) {
                receipts.add(tasks.get(i).get("receipt"));
            }
            settling = CompletableFuture.runAsync(
                    () -> {
                        try {
                            send("POST", "/v1/queues/" + queue + "/settle", Json.of(Map.of("ack", receipts)).toString());
                        } catch (Exception err) {
                            throw new IllegalStateException(err);
                        }
                    },
                    threads);
        }
        settling.join();
    }

    /** Prints the medians of both, and of the ratios of their turns. The first turns warm up. */
    private static void compare(String name, Turn client, Turn bare) throws Exception {
        List<Measure> ours = new ArrayList<>();
        List<Measure> theirs = new ArrayList<>();
        for (int round = -3; round < ROUNDS; round++) {
            Measure one = client.measure();
            Measure other = bare.measure();
            if (round >= 0) {
                ours.add(one);
                theirs.add(other);
            }
        }
        double ratio = median(IntStream.range(0, ROUNDS)
                .mapToDouble(i -> ours.get(i).perSecond() / theirs.get(i).perSecond()));
        System.out.printf("%s: client %.0f/s, bare %.0f/s, ratio %.2f; processor time %.0f µs and %.0f µs%n", name,
                median(ours.stream().mapToDouble(Measure::perSecond)), median(theirs.stream().mapToDouble(Measure::perSecond)),
                ratio, median(ours.stream().mapToDouble(Measure::micros)),
                median(theirs.stream().mapToDouble(Measure::micros)));
    }

    private static double median(DoubleStream numbers) {
        double[] sorted = numbers.sorted().toArray();
        return sorted[sorted.length / 2];
    }

    private void run() throws Exception {
        compare("schedule, 64 callers", () -> calls(this::byClient), () -> calls(this::byHttp));
        int count = SECONDS * 5_000;
        compare("worker, concurrency 64", () -> tasks(count, this::workByClient), () -> tasks(count, this::workByHttp));
    }

    public static void main(String[] args) throws Exception {
        String cluster = System.getenv("BELFRY_ADDR");
        if (cluster != null) {
            new Bench(cluster.split(",")[0]).run();
        } else {
            try (BelfryDev node = BelfryDev.start()) {
                new Bench(node.url()).run();
            }
        }
        System.exit(0);
    }
}
