package io.github.belfryhq.client.testing;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Records deliveries. */
public final class TestReceiver implements AutoCloseable {
    private static final Duration NEXT_TIME = Duration.ofSeconds(10);

    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Respond respond;
    private final List<Received> all = new CopyOnWriteArrayList<>();
    private final LinkedBlockingQueue<Received> unread = new LinkedBlockingQueue<>();

    /** Answers a delivery by a status. */
    @FunctionalInterface
    public interface Respond {
        int status(Received delivery);
    }

    TestReceiver(Respond respond) {
        this.respond = respond;
        try {
            server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        } catch (IOException err) {
            throw new UncheckedIOException(err);
        }
        server.setExecutor(threads);
        server.createContext("/", this::receive);
        server.start();
    }

    private void receive(HttpExchange exchange) throws IOException {
        try (exchange) {
            Map<String, String> headers = new TreeMap<>();
            exchange.getRequestHeaders().forEach((name, values) ->
                    headers.put(name.toLowerCase(Locale.ROOT), String.join(", ", values)));
            Received delivery = new Received(
                    URLDecoder.decode(headers.getOrDefault("ce-subject", "").replace("+", "%2B"), StandardCharsets.UTF_8),
                    headers.get("webhook-id"),
                    Integer.parseInt(headers.getOrDefault("belfry-attempt", "0")),
                    headers.containsKey("belfry-due") ? Instant.parse(headers.get("belfry-due")) : null,
                    headers,
                    exchange.getRequestBody().readAllBytes());
            int status = respond.status(delivery);
            all.add(delivery);
            unread.add(delivery);
            exchange.sendResponseHeaders(status, -1);
        }
    }

    /** Returns the address for a target. */
    public String url() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** Returns the deliveries so far. */
    public List<Received> all() {
        return List.copyOf(all);
    }

    /**
     * Returns the first delivery that no call of next has returned yet. Waits up to 10 seconds of real time.
     *
     * @throws IllegalStateException if none comes
     */
    public Received next() {
        try {
            Received delivery = unread.poll(NEXT_TIME.toMillis(), TimeUnit.MILLISECONDS);
            if (delivery != null) {
                return delivery;
            }
        } catch (InterruptedException err) {
            Thread.currentThread().interrupt();
        }
        throw new IllegalStateException("no further delivery came to " + url() + "; " + all.size() + " came before");
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
    }
}
