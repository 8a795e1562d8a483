package io.github.belfryhq.client;

import java.math.BigInteger;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Supplier;

/**
 * A client of a Belfry cluster. One is meant for a whole program, and any number of threads may use it. Each changing call
 * carries an idempotency key, so that its repeats at other addresses have no further effect. Calls block; an interrupt of
 * the thread ends them with a {@link CancelledException}. They throw a {@link BelfryException} if they fail.
 */
public final class Belfry implements AutoCloseable {
    private static final int MAX_LINES = 1_000;
    private static final int MAX_CHUNK = 4 << 20; // characters

    private final Transport transport;
    private final Queues queues;
    private final Schedules schedules;
    private final Operations operations;

    private Belfry(Builder builder) {
        transport = new Transport(builder);
        queues = new Queues(transport);
        schedules = new Schedules(transport);
        operations = new Operations(transport);
    }

    /** Returns a client with the settings of the environment: see {@link Builder}. */
    public static Belfry fromEnvironment() {
        return builder().build();
    }

    /** Returns a builder that has the settings of the environment. */
    public static Builder builder() {
        return new Builder(System.getenv());
    }

    Transport transport() {
        return transport;
    }

    /** Returns the calls about policies and dead letters of queues. */
    public Queues queues() {
        return queues;
    }

    /** Returns the calls about schedules. */
    public Schedules schedules() {
        return schedules;
    }

    /** Returns the calls about operations on many tasks. */
    public Operations operations() {
        return operations;
    }

    /**
     * Stores a task, or atomically replaces the one with its id, in any state. {@link CallOption#ifNoneMatch} schedules
     * once.
     */
    public Task schedule(NewTask task, CallOption... options) {
        Map<String, Object> content = new LinkedHashMap<>(task.fields);
        Object id = content.remove("id");
        return id == null
                ? transport.created("POST", transport.root + "/tasks", content, options)
                : transport.created("PUT", path((String) id), content, options);
    }

    /** Reads a task or its tombstone. */
    public Task get(String id, CallOption... options) {
        return transport.call(Task.class, "GET", path(id), null, options);
    }

    /** Reads a task at the nearest replica, which may lag. */
    public Task getStale(String id, CallOption... options) {
        return transport.call(Task.class, "GET", path(id) + "?consistency=stale", null, options);
    }

    /** Returns all tasks that the filter selects. A task that is there throughout comes once. */
    public Items<Task> list(TaskFilter filter, CallOption... options) {
        return transport.list(Task.class, "tasks", filter.fields, options);
    }

    /** Ends a task, and returns the final outcome. */
    public Task.Outcome cancel(String id, CallOption... options) {
        return transport.call(Cancelled.class, "DELETE", path(id), null, options).outcome();
    }

    record Cancelled(Task.Outcome outcome) {}

    /** Starts the delay of a task again from now. */
    public Task touch(String id, Touch touch, CallOption... options) {
        return transport.created("POST", path(id) + "/touch", touch, options);
    }

    /** Changes a waiting task. */
    public Task patch(String id, TaskPatch patch, CallOption... options) {
        return transport.call(Task.class, "PATCH", path(id), patch, options);
    }

    /** Makes a task due now. One that waits for its next attempt is attempted now. */
    public Task fire(String id, CallOption... options) {
        return transport.call(Task.class, "POST", path(id) + "/fire", Map.of(), options);
    }

    /** Returns the events of a task that are still kept, also of one that is gone. */
    public TaskHistory history(String id, CallOption... options) {
        return transport.call(TaskHistory.class, "GET", path(id) + "/history", null, options);
    }

    /**
     * Returns events as they happen. After a failure it resumes behind the last one: none is lost or comes twice. Close it
     * when it is no longer read.
     */
    public EventStream events(EventFilter filter) {
        return new EventStream(transport, filter);
    }

    /** Makes many calls, and returns their results in order. Operations that find no leader for now are repeated. */
    public List<BatchResult> batch(Iterable<BatchOp> operations, CallOption... options) {
        List<BatchResult> results = new ArrayList<>();
        List<String> chunk = new ArrayList<>();
        int size = 0;
        for (BatchOp operation : operations) {
            BatchOp keyed = operation.fields.containsKey("key") ? operation : operation.key(UUID.randomUUID().toString());
            String line = transport.mapper.encode(keyed) + "\n";
            if (chunk.size() == MAX_LINES || size + line.length() > MAX_CHUNK && !chunk.isEmpty()) {
                results.addAll(transport.batch(chunk, options));
                chunk.clear();
                size = 0;
            }
            chunk.add(line);
            size += line.length();
        }
        if (!chunk.isEmpty()) {
            results.addAll(transport.batch(chunk, options));
        }
        return results;
    }

    /**
     * Takes at most {@code max} due tasks of a queue that is pulled, for the time of {@code lease}. Returns once there is
     * one, or none when the wait ends.
     */
    public List<LeasedTask> lease(String queue, int max, Duration wait, Duration lease, CallOption... options) {
        return lease(queue, Map.of("max", max, "wait", wait, "lease", lease), wait, options);
    }

    List<LeasedTask> lease(String queue, Map<String, Object> demand, Duration wait, CallOption... options) {
        String path = queues.path(queue) + "/lease";
        byte[] body = transport.mapper.encode(demand).getBytes(StandardCharsets.UTF_8);
        Transport.Request request = new Transport.Request("POST", path, body, options).waiting(wait);
        return transport.send(request, (status, answer) -> {
            List<LeasedTask> tasks = new ArrayList<>();
            for (Object one : (List<?>) Json.parse(answer).get("tasks").value()) {
                @SuppressWarnings("unchecked")
                Map<String, Object> task = (Map<String, Object>) one;
                Lease held = transport.mapper.bind(Lease.class, task);
                Task content = transport.mapper.bind(Task.class, task);
                tasks.add(new LeasedTask(content, held.receipt(), held.attempt(), held.fence()));
            }
            return tasks;
        });
    }

    /** The fields of a leased task beside those of a task. */
    record Lease(String receipt, int attempt, BigInteger fence) {}

    /** Ends or extends leases by their receipts. Each result has its own status. */
    public List<SettleResult> settle(String queue, Settlement settlement, CallOption... options) {
        return transport.call(Settled.class, "POST", queues.path(queue) + "/settle", settlement, options).results();
    }

    record Settled(List<SettleResult> results) {}

    /**
     * Makes any other call of the contract, such as those of operators. The path has the query, and the body, which may be
     * null, is a {@link Json}, a map or another value of {@link Codec#RECORDS} with the names of the API.
     */
    public Json request(String method, String path, Object body, CallOption... options) {
        return transport.json(method, path, body, options);
    }

    private String path(String id) {
        return transport.root + "/tasks/" + Transport.segment(id, "id");
    }

    /** Ends the connections of a client that is no longer used. Later calls fail. */
    @Override
    public void close() {
        transport.close();
    }

    /** Code around the calls of a client, such as metrics and traces. */
    public interface Around {
        /** Makes a call with all its repeats, and returns its answer. Its name is such as {@code GET /v1/tasks/a}. */
        <T> T call(String name, Supplier<T> call);
    }

    /** The settings of a client. Absent ones come from the environment. */
    public static final class Builder {
        final Map<String, String> environment;
        List<String> addresses;
        Supplier<String> key;
        String namespace;
        Duration timeout = Duration.ofSeconds(30);
        Duration attemptTimeout = Duration.ofSeconds(5);
        int maxAttempts = Integer.MAX_VALUE;
        int retryBudget = 500;
        Supplier<String> traceparent = () -> null;
        Codec codec = Codec.RECORDS;
        Around around;
        HttpClient http;

        Builder(Map<String, String> environment) {
            this.environment = environment;
        }

        /** Sets the base URLs of one or more nodes of one cluster. Default: BELFRY_ADDR, with commas between several. */
        public Builder addresses(String... addresses) {
            this.addresses = Arrays.asList(addresses);
            return this;
        }

        /** Sets an API key or a token; "" for none. Default: BELFRY_KEY, or the content of the file BELFRY_KEY_FILE. */
        public Builder key(String key) {
            return key(() -> key);
        }

        /** Sets the file with the key. It is read for each request, so that a rotated key comes into force. */
        public Builder keyFile(Path file) {
            return key(() -> Transport.content(file));
        }

        /** Sets a source of keys, which is asked for each request. */
        public Builder key(Supplier<String> key) {
            this.key = key;
            return this;
        }

        /** Sets the namespace of the calls about tasks, schedules and queues. Default: BELFRY_NAMESPACE, or the key's own. */
        public Builder namespace(String namespace) {
            this.namespace = namespace;
            return this;
        }

        /** Bounds a call with all its repeats. Default 30 seconds. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** Bounds one request. Default 5 seconds. */
        public Builder attemptTimeout(Duration attemptTimeout) {
            this.attemptTimeout = attemptTimeout;
            return this;
        }

        /** Bounds the requests of one call. Default: as many as fit into the timeout. */
        public Builder maxAttempts(int maxAttempts) {
            this.maxAttempts = maxAttempts;
            return this;
        }

        /** Sets the repeats that all calls together may make beyond a fifth of the calls. Default 500. */
        public Builder retryBudget(int retryBudget) {
            this.retryBudget = retryBudget;
            return this;
        }

        /** Sets a source of the W3C trace context of the running code, which deliveries carry on. It may return null. */
        public Builder traceparent(Supplier<String> traceparent) {
            this.traceparent = traceparent;
            return this;
        }

        /** Sets code around each call but the stream of events. Default: none. */
        public Builder around(Around around) {
            this.around = around;
            return this;
        }

        /** Sets the codec of payloads. Default {@link Codec#RECORDS}. */
        public Builder codec(Codec codec) {
            this.codec = codec;
            return this;
        }

        /**
         * Sets the HTTP client, such as one with a TLS context of its own. It must not follow redirects, since the key would
         * go to another host. It stays the caller's.
         */
        public Builder httpClient(HttpClient http) {
            this.http = http;
            return this;
        }

        public Belfry build() {
            return new Belfry(this);
        }
    }
}
