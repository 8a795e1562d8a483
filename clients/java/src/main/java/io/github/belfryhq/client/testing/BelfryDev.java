package io.github.belfryhq.client.testing;

import io.github.belfryhq.client.Belfry;
import io.github.belfryhq.client.CallOption;
import java.io.BufferedReader;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A node of its own for tests, whose clock is set ahead: {@code belfry dev}. Any number run side by side. */
public final class BelfryDev implements AutoCloseable {
    private static final Pattern READY = Pattern.compile("ready: (http:\\S+)");
    private static final Duration START_TIME = Duration.ofSeconds(30);
    private static final Duration STOP_TIME = Duration.ofSeconds(10);
    private static final Duration ADVANCE_TIME = Duration.ofMinutes(5);

    private final Process process;
    private final String url;
    private final Belfry client;
    private final List<TestReceiver> receivers = new ArrayList<>();

    private BelfryDev(Process process, String url) {
        this.process = process;
        this.url = url;
        this.client = Belfry.builder().addresses(url).key("").namespace("").attemptTimeout(ADVANCE_TIME).build();
    }

    /** Starts the program BELFRY_BINARY, or {@code belfry} of the PATH. It is never downloaded. */
    public static BelfryDev start() {
        String binary = System.getenv("BELFRY_BINARY");
        return start(binary == null || binary.isEmpty() ? "belfry" : binary);
    }

    /**
     * Starts a program.
     *
     * @throws IllegalStateException if it does not become ready; the message has its output
     */
    public static BelfryDev start(String binary) {
        Process process;
        try {
            process = new ProcessBuilder(binary, "dev", "--http", "127.0.0.1:0").redirectErrorStream(true).start();
        } catch (IOException err) {
            throw new IllegalStateException(binary + " was not started: name the program in BELFRY_BINARY", err);
        }
        Thread end = new Thread(process::destroyForcibly);
        Runtime.getRuntime().addShutdownHook(end);
        process.onExit().thenRun(() -> forget(end));
        CompletableFuture<String> ready = new CompletableFuture<>();
        Thread reader = new Thread(() -> read(process, ready), "belfry-dev");
        reader.setDaemon(true);
        reader.start();
        try {
            return new BelfryDev(process, ready.get(START_TIME.toSeconds(), TimeUnit.SECONDS));
        } catch (ExecutionException | TimeoutException | InterruptedException err) {
            process.destroyForcibly();
            if (err instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
            throw new IllegalStateException(binary + " dev did not become ready", err);
        }
    }

    private static void forget(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException err) {
            // the program ends, which runs the hook
        }
    }

    /** Reads the output to its end, so that the node never waits for its reader. */
    private static void read(Process process, CompletableFuture<String> ready) {
        StringBuilder text = new StringBuilder();
        try (BufferedReader lines = process.inputReader()) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Matcher found = READY.matcher(line);
                if (found.find()) {
                    ready.complete(found.group(1));
                }
                if (!ready.isDone()) {
                    text.append(line).append('\n');
                }
            }
            ready.completeExceptionally(new IOException("it ended; its output:\n" + text));
        } catch (IOException err) {
            ready.completeExceptionally(err);
        }
    }

    /** Returns the address of the node. */
    public String url() {
        return url;
    }

    /** Returns a client of the node. */
    public Belfry client() {
        return client;
    }

    /** Sets the clock ahead. Tasks come due in order; returns the number of attempts and leases that began meanwhile. */
    public long advance(Duration by) {
        Map<String, Object> body = Map.of("by", by);
        return client.request("POST", "/v1/dev/advance", body, CallOption.timeout(ADVANCE_TIME)).get("begun").asLong();
    }

    /** Starts a receiver of webhooks on this machine, which answers 204. */
    public TestReceiver receiver() {
        return receiver(delivery -> 204);
    }

    /** Starts a receiver of webhooks on this machine, which answers by a function. */
    public synchronized TestReceiver receiver(TestReceiver.Respond respond) {
        TestReceiver receiver = new TestReceiver(respond);
        receivers.add(receiver);
        return receiver;
    }

    /** Ends the node and the receivers. */
    @Override
    public synchronized void close() {
        receivers.forEach(TestReceiver::close);
        client.close();
        process.destroy();
        try {
            if (!process.waitFor(STOP_TIME.toSeconds(), TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException err) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
