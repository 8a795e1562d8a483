package io.github.belfryhq.client;

import io.github.belfryhq.client.BelfryException.Committed;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.net.ConnectException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpClient.Redirect;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.DateTimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;

/** Sends requests to the nodes of a cluster. */
final class Transport {
    private static final Logger LOGGER = System.getLogger("io.github.belfryhq.client");
    private static final Pattern KEY = Pattern.compile("[\\x21-\\x7e]+");
    private static final double EARNED = 0.2; // repeats that a call adds to the budget
    private static final long MIN_PAUSE = 20; // milliseconds
    private static final long MAX_PAUSE = 1_000;

    final String root;
    final Mapper mapper;
    final Duration attemptTimeout;
    private final List<String> addresses;
    private final AtomicInteger current = new AtomicInteger();
    private final Supplier<String> key;
    private final Supplier<String> traceparent;
    private final Belfry.Around around; // or null
    private final Duration timeout;
    private final int maxAttempts;
    private final int fullBudget;
    private double budget; // guarded by this
    private final String keyPrefix = UUID.randomUUID().toString();
    private final AtomicLong keys = new AtomicLong();
    private final boolean ownHttp;
    private volatile HttpClient http; // null once closed

    Transport(Belfry.Builder options) {
        addresses = addresses(options);
        key = key(options);
        String namespace = options.namespace != null ? options.namespace : variable(options, "BELFRY_NAMESPACE", "");
        root = namespace.isEmpty() ? "/v1" : "/v1/namespaces/" + segment(namespace, "namespace");
        mapper = Mapper.of(options.codec);
        traceparent = options.traceparent;
        around = options.around;
        timeout = options.timeout;
        attemptTimeout = options.attemptTimeout;
        maxAttempts = options.maxAttempts;
        fullBudget = options.retryBudget;
        budget = fullBudget;
        ownHttp = options.http == null;
        if (!ownHttp && options.http.followRedirects() != Redirect.NEVER) {
            throw new IllegalArgumentException("the HTTP client follows redirects, and a key is never sent to another host");
        }
        // HTTP/2 would put all calls on one connection, and begin each with an upgrade.
        http = ownHttp ? HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build() : options.http;
    }

    private static String variable(Belfry.Builder options, String name, String absent) {
        String value = options.environment.get(name);
        return value == null || value.isEmpty() ? absent : value;
    }

    private static List<String> addresses(Belfry.Builder options) {
        List<String> given = options.addresses != null
                ? options.addresses
                : Arrays.asList(variable(options, "BELFRY_ADDR", "http://127.0.0.1:8400").split(","));
        if (given.isEmpty()) {
            throw new IllegalArgumentException("there is no address");
        }
        return given.stream().map(Transport::baseOf).toList();
    }

    /** Returns the address without a slash at its end. The message of a failure has nothing of a password. */
    private static String baseOf(String address) {
        String text = address.strip();
        URI uri;
        try {
            uri = URI.create(text.contains("://") ? text : "http://" + text);
        } catch (IllegalArgumentException err) {
            throw new IllegalArgumentException("an address is not http://host:port");
        }
        if (uri.getRawUserInfo() != null) {
            throw new IllegalArgumentException("an address has a user or password: calls do not carry them");
        }
        boolean http = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
        if (!http || uri.getHost() == null || uri.getRawQuery() != null || uri.getRawFragment() != null) {
            throw new IllegalArgumentException("an address is not http://host:port");
        }
        return uri.toString().replaceAll("/+$", "");
    }

    /** Returns the source of keys. */
    private static Supplier<String> key(Belfry.Builder options) {
        if (options.key != null) {
            return options.key;
        }
        String known = variable(options, "BELFRY_KEY", "");
        String file = variable(options, "BELFRY_KEY_FILE", "");
        return known.isEmpty() && !file.isEmpty() ? () -> content(Path.of(file)) : () -> known;
    }

    static String content(Path file) {
        try {
            return Files.readString(file).strip();
        } catch (IOException err) {
            throw new UncheckedIOException(err);
        }
    }

    /** A request that can be sent any number of times. The service may be silent for {@code idle} longer than in other calls. */
    record Request(
            String method, String path, byte[] body, String contentType, String accept, Duration idle, CallOption... options) {
        Request(String method, String path, byte[] body, CallOption... options) {
            this(method, path, body, "application/json", null, Duration.ZERO, options);
        }

        Request waiting(Duration wait) {
            return new Request(method, path, body, contentType, accept, wait, options);
        }

        boolean changes() {
            return !method.equals("GET");
        }

        /** Returns the name of the call in errors and logs. A query is left out, since it may hold labels. */
        String name() {
            int query = path.indexOf('?');
            return method + " " + (query < 0 ? path : path.substring(0, query));
        }
    }

    /** Reads the body of an answer. */
    interface Reader<T> {
        T read(int status, String body);
    }

    /** Makes one request, and reads its answer. */
    private interface Attempt<T> {
        T make(long limit, String idempotencyKey);
    }

    /** Returns the answer of a call whose body, which may be null, is written as JSON. */
    Json json(String method, String path, Object body, CallOption... options) {
        return send(request(method, path, body, options), (status, text) -> text.isBlank() ? Json.of(null) : Json.parse(text));
    }

    <T> T call(Class<T> type, String method, String path, Object body, CallOption... options) {
        return send(request(method, path, body, options), (status, text) -> mapper.bind(type, members(text)));
    }

    /** Returns the task of a call that may make one. */
    Task created(String method, String path, Object body, CallOption... options) {
        return send(request(method, path, body, options), (status, text) -> {
            Map<String, Object> task = members(text);
            task.put("created", status == 201);
            return mapper.bind(Task.class, task);
        });
    }

    private Request request(String method, String path, Object body, CallOption... options) {
        byte[] bytes = body == null ? null : mapper.encode(body).getBytes(StandardCharsets.UTF_8);
        return new Request(method, path, bytes, options);
    }

    /** Returns the members of an answer, which is an object. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> members(String text) {
        if (Json.parse(text).value() instanceof Map<?, ?> members) {
            return (Map<String, Object>) members;
        }
        throw new IllegalArgumentException("the answer is no object");
    }

    <T> Items<T> list(Class<T> type, String kind, Map<String, Object> filter, CallOption... options) {
        return new Items<>(cursor -> {
            Map<String, Object> query = new LinkedHashMap<>(filter);
            if (cursor != null) {
                query.put("cursor", cursor);
            }
            Json page = json("GET", root + "/" + kind + Mapper.query(query), null, options);
            List<T> items = new ArrayList<>();
            for (int i = 0; i < page.get(kind).size(); i++) {
                items.add(mapper.decode(page.get(kind).get(i), type));
            }
            return new Items.Page<>(items, page.get("next_cursor").asString());
        });
    }

    /** Sends lines of a batch until each has a final result. */
    List<BatchResult> batch(List<String> lines, CallOption... options) {
        BatchResult[] results = new BatchResult[lines.size()];
        List<Integer> open = new ArrayList<>();
        for (int i = 0; i < results.length; i++) {
            open.add(i);
        }
        long deadline = System.nanoTime() + timeout(options).toNanos();
        for (long pause = MIN_PAUSE; !open.isEmpty(); pause = Math.min(2 * pause, MAX_PAUSE)) {
            if (pause > MIN_PAUSE) {
                if (System.nanoTime() + pause * 1_000_000 >= deadline) {
                    break;
                }
                sleep(pause, "batch");
            }
            StringBuilder body = new StringBuilder();
            open.forEach(i -> body.append(lines.get(i)));
            byte[] bytes = body.toString().getBytes(StandardCharsets.UTF_8);
            Request request = new Request(
                    "POST", root + "/batch", bytes, "application/x-ndjson", null, Duration.ZERO, options);
            repeat(request, (limit, key) -> attempt(request, limit, key, open, results));
            open.removeIf(i -> results[i].problem() == null || !results[i].error().repeatable());
        }
        return Arrays.asList(results);
    }

    private Void attempt(Request request, long limit, String key, List<Integer> open, BatchResult[] results) {
        int next = 0;
        try (Lines lines = open(request, limit, key)) {
            for (String line = next(lines, request, limit); line != null; line = next(lines, request, limit)) {
                BatchResult result = result(request, line, open.size() - next);
                if (result.id() == null) {
                    throw ProblemException.of(result.problem(), request.name());
                }
                results[open.get(next++)] = result;
            }
        }
        if (next < open.size()) {
            throw new ConnectionException(request.name() + ": the answer broke off", Committed.UNKNOWN, null);
        }
        return null;
    }

    /** Returns the result of a line. One without an id ends the batch, and has a problem. */
    private BatchResult result(Request request, String line, int more) {
        BatchResult result = decode(request, () -> mapper.bind(BatchResult.class, members(line)));
        if (more == 0 || result.id() == null && result.problem() == null) {
            throw new ProtocolException(request.name() + ": the answer cannot be read", Committed.UNKNOWN);
        }
        return result;
    }

    private Duration timeout(CallOption... options) {
        for (CallOption option : options) {
            if (option.timeout != null) {
                return option.timeout;
            }
        }
        return timeout;
    }

    /** Sends a request until it has a final answer. */
    <T> T send(Request request, Reader<T> reader) {
        return repeat(request, (limit, key) -> {
            long deadline = System.nanoTime() + limit;
            HttpResponse<Lines> answer = exchange(request, limit, key);
            try (Lines lines = answer.body()) {
                String text = read(request, () -> lines.rest(deadline - System.nanoTime()));
                return decode(request, () -> reader.read(answer.statusCode(), text));
            }
        });
    }

    /** Reads an answer, whose text is left out of the exception. */
    <T> T decode(Request request, Supplier<T> read) {
        try {
            return read.get();
        } catch (IllegalArgumentException | ArithmeticException | DateTimeException | ClassCastException err) {
            throw new ProtocolException(request.name() + ": the answer cannot be read", Committed.UNKNOWN);
        }
    }

    private <T> T repeat(Request request, Attempt<T> call) {
        return around == null ? attempts(request, call) : around.call(request.name(), () -> attempts(request, call));
    }

    private <T> T attempts(Request request, Attempt<T> call) {
        long deadline = System.nanoTime() + timeout(request.options()).plus(request.idle()).toNanos();
        long most = attemptTimeout.plus(request.idle()).toNanos();
        String idempotencyKey = request.changes() ? keyPrefix + "-" + Long.toString(keys.incrementAndGet(), 36) : null;
        Committed committed = Committed.NO;
        for (int attempt = 1; ; attempt++) {
            int at = current.get();
            BelfryException failure;
            try {
                T answer = call.make(Math.min(deadline - System.nanoTime(), most), idempotencyKey);
                earn();
                return answer;
            } catch (CancelledException err) {
                throw err;
            } catch (BelfryException err) {
                failure = err;
            }
            if (request.changes() && failure.committed() == Committed.UNKNOWN) {
                committed = Committed.UNKNOWN;
            }
            if (!failure.repeatable()) {
                throw failure;
            }
            boolean limited = failure instanceof ProblemException problem && problem.status() == 429;
            if (!limited) {
                current.compareAndSet(at, at + 1);
            }
            long pause = pause(attempt, failure, limited);
            if (attempt >= maxAttempts || !affordable()) {
                throw failure;
            }
            if (System.nanoTime() + pause * 1_000_000 >= deadline) {
                String text = request.name() + ": no answer in time; the last failure: " + failure.getMessage();
                throw new BelfryTimeoutException(text, committed, failure);
            }
            log(Level.DEBUG, "repeating a call after attempt " + attempt, failure);
            sleep(pause, request.name());
        }
    }

    private synchronized void earn() {
        budget = Math.min(budget + EARNED, fullBudget);
    }

    /** Takes one repeat from the budget, if there is one. */
    private synchronized boolean affordable() {
        if (budget < 1) {
            return false;
        }
        budget--;
        return true;
    }

    /**
     * Returns the milliseconds until the next attempt. The next address is asked at once. Once all have failed, the
     * service's Retry-After or a backoff counts.
     */
    private long pause(int attempt, BelfryException failure, boolean limited) {
        if (!limited && attempt < addresses.size()) {
            return 0;
        }
        Long asked = failure instanceof ProblemException problem ? problem.problem().retryAfter() : null;
        if (asked != null && (limited || addresses.size() == 1)) {
            return asked * 1_000;
        }
        long backoff = Math.min(MIN_PAUSE << Math.min(attempt - 1, 10), MAX_PAUSE);
        return backoff / 2 + ThreadLocalRandom.current().nextLong(backoff / 2 + 1);
    }

    /** Moves on to the next address. */
    void moveOn() {
        current.incrementAndGet();
    }

    /** Logs a failure, which shows no key and no payload. */
    void log(Level level, String text, Throwable failure) {
        LOGGER.log(level, () -> "belfry: " + text + ": " + failure.getMessage());
    }

    void sleep(long milliseconds, String name) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException err) {
            throw interrupted(name);
        }
    }

    private static CancelledException interrupted(String name) {
        Thread.currentThread().interrupt();
        return new CancelledException(name + ": the thread was interrupted", Committed.UNKNOWN);
    }

    /** Makes one request at the present address, and returns the lines of its answer. The caller closes them. */
    Lines open(Request request, long limit, String idempotencyKey) {
        return exchange(request, limit, idempotencyKey).body();
    }

    /** Returns the next line of an answer, or null at its end. */
    String next(Lines lines, Request request, long silence) {
        return read(request, () -> lines.next(silence));
    }

    private interface Reading {
        String read() throws IOException, InterruptedException, TimeoutException;
    }

    private static String read(Request request, Reading reading) {
        try {
            return reading.read();
        } catch (InterruptedException err) {
            throw interrupted(request.name());
        } catch (IOException err) {
            throw new ConnectionException(request.name() + ": the answer broke off", Committed.UNKNOWN, null);
        } catch (TimeoutException err) {
            throw new ConnectionException(request.name() + ": no answer in time", Committed.UNKNOWN, null);
        }
    }

    /**
     * Makes one request, and returns its answer, whose body the caller reads and closes. It uses send, since sendAsync
     * begins a thread for each answer on machines of one or two processors.
     */
    private HttpResponse<Lines> exchange(Request request, long limit, String idempotencyKey) {
        HttpClient open = http;
        if (open == null) {
            throw new IllegalStateException("the client is closed");
        }
        HttpResponse<Lines> answer;
        try {
            answer = open.send(httpRequest(request, limit, idempotencyKey), head -> new Lines());
        } catch (InterruptedException err) {
            throw interrupted(request.name());
        } catch (IOException err) {
            throw failure(request, err);
        }
        if (answer.statusCode() / 100 == 2) {
            return answer;
        }
        try (Lines lines = answer.body()) {
            String text = read(request, () -> lines.rest(limit));
            throw refusal(request, answer.statusCode(), answer.headers(), text);
        }
    }

    /** A refused connection has carried nothing. Other causes are left out, since their texts may show an answer. */
    private static ConnectionException failure(Request request, IOException cause) {
        String text = request.name() + ": no answer: " + cause.getClass().getSimpleName();
        if (cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException) {
            return new ConnectionException(text, Committed.NO, cause);
        }
        return new ConnectionException(text, Committed.UNKNOWN, cause instanceof SSLException ? cause : null);
    }

    private HttpRequest httpRequest(Request request, long limit, String idempotencyKey) {
        String base = addresses.get(Math.floorMod(current.get(), addresses.size()));
        BodyPublisher body =
                request.body() == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(request.body());
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(base + request.path()))
                .method(request.method(), body)
                .timeout(Duration.ofNanos(Math.max(limit, 1)));
        String credential = key.get();
        if (credential != null && !credential.isEmpty()) {
            if (!KEY.matcher(credential).matches()) {
                throw new IllegalArgumentException("the key has a character that a header cannot carry");
            }
            builder.setHeader("authorization", "Bearer " + credential);
        }
        if (request.body() != null) {
            builder.setHeader("content-type", request.contentType());
        }
        if (request.accept() != null) {
            builder.setHeader("accept", request.accept());
        }
        if (idempotencyKey != null) {
            builder.setHeader("idempotency-key", idempotencyKey);
        }
        for (CallOption option : request.options()) {
            if (option.header != null) {
                builder.setHeader(option.header, option.value);
            }
        }
        String trace = traceparent.get();
        if (trace != null) {
            builder.setHeader("traceparent", trace);
        }
        return builder.build();
    }

    /** Returns the exception of a refused request. Only a problem's own fields are shown: a proxy may echo the key. */
    private BelfryException refusal(Request request, int status, HttpHeaders headers, String text) {
        if (status / 100 == 3) {
            String reason = "the answer is a redirect, and a key is never sent to another host: name that address itself";
            return new ProtocolException(request.name() + ": " + reason, Committed.NO);
        }
        Problem problem = Problem.of(status, "the answer is not the service's");
        if (headers.firstValue("content-type").orElse("").startsWith("application/problem+json")) {
            try {
                problem = decode(request, () -> mapper.bind(Problem.class, members(text)));
            } catch (ProtocolException err) {
                problem = Problem.of(status, "the problem cannot be read");
            }
        }
        String seconds = headers.firstValue("retry-after").orElse("");
        Long retryAfter = seconds.matches("\\d{1,9}") ? Long.valueOf(seconds) : problem.retryAfter();
        return ProblemException.of(problem.with(status, retryAfter), request.name());
    }

    /** Returns the path's part of an id. A URL would swallow an empty one and dots, and lead to another call. */
    static String segment(String id, String field) {
        boolean half = id.codePoints().anyMatch(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE);
        if (half || id.isEmpty() || id.equals(".") || id.equals("..")) {
            Problem problem = new Problem("urn:belfry:problem:invalid-field", "", 400, "is no id", field,
                    "[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}", null, null, null, "no", null, null, null, null, null, null);
            throw ProblemException.of(problem, field);
        }
        return URLEncoder.encode(id, StandardCharsets.UTF_8).replace("+", "%20");
    }

    void close() {
        HttpClient open = http;
        http = null;
        if (ownHttp && open != null) {
            Threads.shutdown(open);
        }
    }
}
