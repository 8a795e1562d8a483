package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.github.belfryhq.client.BelfryException.Committed;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TransportTest {
    private static final String TASK = "{\"id\":\"t\"}";

    private final List<HttpServer> peers = new ArrayList<>();
    private final List<String> requests = new ArrayList<>(); // number of the peer, path, idempotency key, authorization
    private final ArrayDeque<Answer> answers = new ArrayDeque<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final CountDownLatch released = new CountDownLatch(1);

    private interface Answer {
        void write(HttpExchange exchange) throws Exception;
    }

    @BeforeEach
    void listen() throws IOException {
        for (int i = 0; i < 2; i++) {
            HttpServer peer = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
            peer.setExecutor(threads);
            int number = i;
            peer.createContext("/", exchange -> answer(number, exchange));
            peer.start();
            peers.add(peer);
        }
    }

    @AfterEach
    void close() {
        released.countDown();
        peers.forEach(peer -> peer.stop(0));
        threads.shutdownNow();
    }

    /** Gives the answers by turns. The last one repeats. */
    private void answer(int peer, HttpExchange exchange) throws IOException {
        exchange.getRequestBody().readAllBytes();
        Answer answer;
        synchronized (requests) {
            requests.add(peer + " " + exchange.getRequestURI() + " " + exchange.getRequestHeaders().getFirst("Idempotency-Key")
                    + " " + exchange.getRequestHeaders().getFirst("Authorization"));
            answer = answers.size() > 1 ? answers.poll() : answers.peek();
        }
        try (exchange) {
            answer.write(exchange);
        } catch (Exception err) {
            throw new IOException(err);
        }
    }

    private static Answer text(int status, String type, String text) {
        return exchange -> {
            byte[] body = text.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", type);
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
        };
    }

    private static Answer problem(int status, String type) {
        return text(status, "application/problem+json", "{\"type\":\"urn:belfry:problem:" + type + "\",\"title\":\"x\"}");
    }

    private static final Answer OK = text(201, "application/json", TASK);
    private static final Answer BROKEN = HttpExchange::close;

    private Answer hanging() {
        return exchange -> released.await();
    }

    private String address(int peer) {
        return "http://127.0.0.1:" + peers.get(peer).getAddress().getPort();
    }

    private Belfry.Builder builder(Answer... script) {
        answers.addAll(Arrays.asList(script));
        return new Belfry.Builder(Map.of()).addresses(address(0));
    }

    private static NewTask task() {
        return Task.in(Duration.ofHours(1)).id("t");
    }

    @Test
    void eachAddressIsAskedAtOnceWithTheSameKey() {
        Belfry belfry = builder(BROKEN, BROKEN, OK).addresses(address(0), address(1) + "/").build();
        assertTrue(belfry.schedule(task()).created());
        assertEquals(List.of("0 /v1/tasks/t", "1 /v1/tasks/t", "0 /v1/tasks/t"),
                requests.stream().map(request -> request.substring(0, 13)).toList());
        assertEquals(1, new HashSet<>(requests.stream().map(request -> request.split(" ")[2]).toList()).size());
    }

    @Test
    void codeAroundACallSeesItsNameAndItsOutcome() {
        List<String> calls = new ArrayList<>();
        Belfry belfry = builder(BROKEN, OK, problem(404, "task-not-found")).around(new Belfry.Around() {
            @Override
            public <T> T call(String name, Supplier<T> call) {
                try {
                    T answer = call.get();
                    calls.add(name + " ended");
                    return answer;
                } catch (ProblemException err) {
                    calls.add(name + " failed: " + err.type());
                    throw err;
                }
            }
        }).build();
        belfry.schedule(task());
        assertThrows(ProblemException.NotFound.class, () -> belfry.get("t"));
        assertEquals(List.of("PUT /v1/tasks/t ended", "GET /v1/tasks/t failed: task-not-found"), calls);
    }

    @Test
    void theBudgetBoundsTheRepeatsOfAllCalls() {
        Belfry belfry = builder(problem(503, "not-ready")).retryBudget(3).build();
        assertThrows(ProblemException.Unavailable.class, () -> belfry.get("t"));
        assertEquals(4, requests.size());
        assertThrows(ProblemException.Unavailable.class, () -> belfry.get("t"));
        assertEquals(5, requests.size());
    }

    @Test
    void aTimeoutTellsWhetherTheCallMayHaveHappened() throws IOException {
        String closed;
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            closed = "127.0.0.1:" + socket.getLocalPort();
        }
        Duration time = Duration.ofMillis(300);
        Belfry refused = builder(BROKEN).addresses(closed).timeout(time).build();
        BelfryException no = assertThrows(BelfryTimeoutException.class, () -> refused.cancel("t"));
        assertEquals(Committed.NO, no.committed());
        assertInstanceOf(ConnectionException.class, no.getCause());
        Belfry broken = builder().timeout(time).build();
        BelfryException unknown = assertThrows(BelfryTimeoutException.class, () -> broken.cancel("t"));
        assertEquals(Committed.UNKNOWN, unknown.committed());
    }

    @Test
    void aSilentBodyIsLeft() {
        Answer silent = exchange -> {
            exchange.sendResponseHeaders(201, 100);
            exchange.getResponseBody().write('{');
            exchange.getResponseBody().flush();
            released.await();
        };
        Belfry belfry = builder(silent, OK).attemptTimeout(Duration.ofMillis(200)).build();
        assertEquals("t", belfry.schedule(task()).id());
        assertEquals(2, requests.size());
    }

    @Test
    void anInterruptEndsACall() throws InterruptedException {
        CountDownLatch arrived = new CountDownLatch(1);
        Belfry belfry = builder(exchange -> {
                    arrived.countDown();
                    released.await();
                })
                .build();
        List<Object> seen = new ArrayList<>();
        Thread caller = new Thread(() -> {
            try {
                belfry.get("t");
            } catch (CancelledException err) {
                seen.add(Thread.currentThread().isInterrupted());
            }
        });
        caller.start();
        arrived.await();
        caller.interrupt();
        caller.join();
        assertEquals(List.of(true), seen);
    }

    @Test
    void aBatchRepeatsOnlyTheLinesThatFoundNoLeader() {
        String first = "{\"id\":\"a\",\"status\":201,\"revision\":1}\n"
                + "{\"id\":\"b\",\"status\":503,\"problem\":{\"type\":\"urn:belfry:problem:not-committed\",\"status\":503}}\n"
                + "{\"id\":\"c\",\"status\":404,\"problem\":{\"type\":\"urn:belfry:problem:task-not-found\",\"status\":404}}\n";
        Answer broken = text(200, "application/x-ndjson", "{\"id\":\"a\",\"status\":201}\n");
        Answer whole = text(200, "application/x-ndjson", first);
        Answer rest = text(200, "application/x-ndjson", "{\"id\":\"b\",\"status\":200}\n");
        Belfry belfry = builder(broken, whole, rest).build();
        List<BatchResult> results = belfry.batch(List.of(
                BatchOp.schedule(task().id("a")), BatchOp.fire("b"), BatchOp.cancel("c")));
        assertEquals(List.of(201, 200, 404), results.stream().map(BatchResult::status).toList());
        assertInstanceOf(ProblemException.NotFound.class, results.get(2).error());
        assertEquals(3, requests.size());
    }

    @Test
    void idsThatAUrlWouldSwallowNeverLeave() {
        Belfry belfry = builder(OK).build();
        for (String id : List.of("", ".", "..", "\ud800")) {
            assertEquals("id", assertThrows(ProblemException.Invalid.class, () -> belfry.cancel(id)).field());
        }
        assertEquals(List.of(), requests);
    }

    @Test
    void settingsComeFromTheEnvironmentAndKeysStayOutOfErrors(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("key"), "bfy_secret\n");
        answers.add(text(400, "text/plain", "authorization: Bearer bfy_secret"));
        Belfry belfry = new Belfry.Builder(Map.of(
                        "BELFRY_ADDR", address(0) + "," + address(1),
                        "BELFRY_KEY_FILE", file.toString(),
                        "BELFRY_NAMESPACE", "orders"))
                .build();
        ProblemException err = assertThrows(ProblemException.class, () -> belfry.get("t"));
        assertEquals("0 /v1/namespaces/orders/tasks/t null Bearer bfy_secret", requests.get(0));
        StringWriter trace = new StringWriter();
        err.printStackTrace(new PrintWriter(trace));
        assertFalse((trace.toString() + err.problem()).contains("bfy_secret"), trace.toString());

        Files.writeString(file, "bfy_secret\nbfy_other");
        String message = assertThrows(IllegalArgumentException.class, () -> belfry.get("t")).getMessage();
        assertFalse(message.contains("bfy_"), message);
    }

    @Test
    void wrongSettingsAreRefusedWithoutTheirSecrets() {
        for (String[] addresses : new String[][] {{"http://user:bfy_secret@a"}, {"ftp://a"}, {"http://"}, {}}) {
            Belfry.Builder builder = new Belfry.Builder(Map.of()).addresses(addresses);
            String message = assertThrows(IllegalArgumentException.class, builder::build).getMessage();
            assertFalse(message.contains("bfy_secret"), message);
        }
        HttpClient http = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.ALWAYS).build();
        assertThrows(IllegalArgumentException.class, () -> builder(OK).httpClient(http).build());
    }

    @Test
    void aClosedClientMakesNoCalls() {
        Belfry belfry = builder(OK).build();
        belfry.close();
        assertThrows(IllegalStateException.class, () -> belfry.get("t"));
        assertEquals(List.of(), requests);
    }

    @Test
    void eventsResumeBehindTheLastOne() {
        String event = "{\"id\":\"%s\",\"type\":\"delivered\",\"at\":\"2026-01-01T00:00:00Z\",\"task\":\"%s\",\"shard\":0}\n";
        Answer broken = exchange -> {
            exchange.sendResponseHeaders(200, 0);
            exchange.getResponseBody().write(("{\"heartbeat\":\"x\"}\n" + event.formatted("e1", "a") + "{\"id\":")
                    .getBytes(StandardCharsets.UTF_8));
        };
        Answer rest = text(200, "application/x-ndjson", event.formatted("e2", "b"));
        Belfry belfry = builder(broken, rest).build();
        List<String> tasks = new ArrayList<>();
        try (EventStream events = belfry.events(new EventFilter().since(Duration.ofHours(1)).follow(false))) {
            events.forEach(one -> tasks.add(one.task()));
        }
        assertEquals(List.of("a", "b"), tasks);
        assertEquals("0 /v1/events?since=1h&follow=false null null", requests.get(0));
        assertEquals("0 /v1/events?follow=false&after=e1 null null", requests.get(1));
    }

    @Test
    void eventsThatAreGoneEndTheStream() {
        Belfry belfry = builder(problem(410, "events-gone")).build();
        try (EventStream events = belfry.events(new EventFilter().after("e1"))) {
            assertThrows(ProblemException.NotFound.class, events::hasNext);
        }
    }
}
