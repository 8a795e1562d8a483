package io.github.belfryhq.client;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * The driver of the conformance suite: see clients/conformance/README.md. One JSON object a line on standard input is a
 * call, and one a line on standard output its answer.
 */
final class Conform {
    private static final Map<String, Belfry> CLIENTS = new ConcurrentHashMap<>();
    private static final Map<String, Receiver> RECEIVERS = new ConcurrentHashMap<>();
    private static final ScheduledExecutorService TIMER = Threads.timer("cancel");

    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    private Conform() {}

    /** A call: the client, the step's `with`, its body, its query and its options. */
    private record Step(Belfry client, Json with, Map<String, Object> body, Map<String, Object> query, CallOption[] options) {
        String text(String name) {
            return with.get(name).asString();
        }

        int number(String name) {
            return query.get(name) instanceof Number number ? number.intValue() : 0;
        }
    }

    private interface Call {
        Object make(Step step) throws Exception;
    }

    /** The calls that have a method of their own. */
    private static final Map<String, Call> CALLS = new LinkedHashMap<>();

    static {
        CALLS.put("putTask", s -> s.client.schedule(new NewTask(s.body).id(s.text("id")), s.options));
        CALLS.put("postTask", s -> s.client.schedule(new NewTask(s.body), s.options));
        CALLS.put("getTask", s -> s.query.containsKey("consistency")
                ? s.client.getStale(s.text("id"), s.options)
                : s.client.get(s.text("id"), s.options));
        CALLS.put("patchTask", s -> s.client.patch(s.text("id"), new TaskPatch(s.body), s.options));
        CALLS.put("cancelTask", s -> Map.of("outcome", s.client.cancel(s.text("id"), s.options)));
        CALLS.put("touchTask", s -> s.client.touch(s.text("id"), new Touch(s.body), s.options));
        CALLS.put("fireTask", s -> s.client.fire(s.text("id"), s.options));
        CALLS.put("getTaskHistory", s -> s.client.history(s.text("id"), s.options));
        CALLS.put("listTasks", s -> Map.of("tasks", collect(s.client.list(new TaskFilter(s.query), s.options))));
        CALLS.put("batch", s -> Map.of("results", s.client.batch(operations(s.with.get("lines")), s.options)));
        CALLS.put("lease", s -> {
            Duration wait = Mapper.duration(String.valueOf(s.body.getOrDefault("wait", "0s")));
            List<LeasedTask> tasks = s.client.lease(s.text("queue"), s.body, wait, s.options);
            return Map.of("tasks", tasks.stream().map(Conform::flat).toList());
        });
        CALLS.put("settle", s ->
                Map.of("results", s.client.settle(s.text("queue"), new Settlement(s.body), s.options)));
        CALLS.put("preview", s -> s.client.schedules().preview(
                new Repeat(members(s.body.get("repeat"))), ((Number) s.body.get("next")).intValue(), s.options));
        CALLS.put("putQueue", s -> s.client.queues().put(s.text("queue"), new QueuePolicy(s.body), s.options));
        CALLS.put("patchQueue", s -> s.client.queues().patch(s.text("queue"), new QueuePatch(s.body), s.options));
        CALLS.put("getQueue", s -> s.client.queues().get(s.text("queue"), s.options));
        CALLS.put("listQueues", s -> Map.of("queues",
                collect(s.client.queues().list(String.valueOf(s.query.getOrDefault("prefix", "")), s.options))));
        CALLS.put("deleteQueue", s -> none(() -> s.client.queues().delete(s.text("queue"), s.options)));
        CALLS.put("pauseQueue", s -> s.client.queues().pause(s.text("queue"), s.options));
        CALLS.put("resumeQueue", s -> s.client.queues().resume(s.text("queue"), s.options));
        CALLS.put("replayDead", s ->
                Map.of("count", s.client.queues().replayDead(s.text("queue"), new TaskFilter(s.query), s.options)));
        CALLS.put("dropDead", s ->
                Map.of("count", s.client.queues().dropDead(s.text("queue"), new TaskFilter(s.query), s.options)));
        CALLS.put("putSchedule", s -> s.client.schedules().put(s.text("id"), new NewSchedule(s.body), s.options));
        CALLS.put("patchSchedule", s -> s.client.schedules().patch(s.text("id"), new SchedulePatch(s.body), s.options));
        CALLS.put("getSchedule", s -> s.client.schedules().get(s.text("id"), s.options));
        CALLS.put("listSchedules", s ->
                Map.of("schedules", collect(s.client.schedules().list(new TaskFilter(s.query), s.options))));
        CALLS.put("deleteSchedule", s -> none(() -> s.client.schedules().delete(s.text("id"), s.options)));
        CALLS.put("pauseSchedule", s -> s.client.schedules().pause(s.text("id"), note(s), s.options));
        CALLS.put("resumeSchedule", s -> s.client.schedules().resume(s.text("id"), note(s), s.options));
        CALLS.put("fireSchedule", s -> s.client.schedules().fire(s.text("id"), s.options));
        CALLS.put("skipOccurrence", s -> s.client.schedules().skip(s.text("id"), s.options));
        CALLS.put("backfillSchedule", s -> s.client.schedules().backfill(s.text("id"),
                Instant.parse((String) s.body.get("from")), Instant.parse((String) s.body.get("to")), s.options));
        CALLS.put("listOccurrences", s ->
                s.client.schedules().occurrences(s.text("id"), s.number("next"), s.number("last"), s.options));
        CALLS.put("beginBulkOperation", s -> {
            NewOperation operation = new NewOperation(s.body);
            return s.body.containsKey("dry_run")
                    ? s.client.operations().count(operation, s.options)
                    : s.client.operations().begin(operation, s.options);
        });
        CALLS.put("getOperation", s -> s.client.operations().get(s.text("id"), s.options));
        CALLS.put("listOperations", s -> Map.of("operations", s.client.operations().list(s.options)));
        CALLS.put("stopOperation", s -> s.client.operations().stop(s.text("id"), s.options));
        CALLS.put("streamEvents", Conform::events);
        CALLS.put("backup", s -> Map.of("bytes", s.client.transport()
                .send(new Transport.Request("GET", "/v1/backup", null), (status, text) -> !text.isEmpty())));
        CALLS.put("readAudit", s -> Map.of("records", s.client.transport()
                .send(new Transport.Request("GET", "/v1/audit", null), (status, text) -> !text.isBlank())));
        CALLS.put("consume", Conform::consume);
        CALLS.put("verify", Conform::verify);
    }

    private static Object none(Runnable call) {
        call.run();
        return null;
    }

    private static String note(Step step) {
        return (String) step.body.get("note");
    }

    private static <T> List<T> collect(Items<T> items) {
        return items.stream().toList();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> members(Object value) {
        return value instanceof Map<?, ?> map ? (Map<String, Object>) map : Map.of();
    }

    private static List<BatchOp> operations(Json lines) {
        return ((List<?>) lines.value()).stream().map(line -> new BatchOp(members(line))).toList();
    }

    /** Returns a leased task as the API has it. */
    private static Map<String, Object> flat(LeasedTask leased) {
        Map<String, Object> task = new LinkedHashMap<>(members(Json.parse(Mapper.API.encode(leased.task())).value()));
        task.putAll(Map.of("receipt", leased.receipt(), "attempt", leased.attempt(), "fence", leased.fence()));
        return task;
    }

    private static Object events(Step step) {
        Map<String, Object> query = new LinkedHashMap<>(step.query);
        query.computeIfPresent("type", (name, types) ->
                types instanceof List<?> list ? String.join(",", list.stream().map(String::valueOf).toList()) : types);
        List<TaskEvent> events = new ArrayList<>();
        long count = step.with.get("count").asLong();
        try (EventStream stream = step.client.events(new EventFilter(query))) {
            while (events.size() < count && stream.hasNext()) {
                TaskEvent event = stream.next();
                if (event.type() != TaskEvent.Type.GAP) {
                    events.add(event);
                }
            }
        }
        return Map.of("events", events);
    }

    /** Handles the tasks of a queue by a list of outcomes, the last of which repeats. */
    private static Object consume(Step step) {
        Json outcomes = step.with.get("outcomes").isNull() ? Json.of(List.of("ack")) : step.with.get("outcomes");
        Json count = step.with.get("count");
        Json distinct = step.with.get("distinct");
        Set<String> ids = new HashSet<>();
        List<Map<String, Object>> handled = new ArrayList<>();
        int[] begun = {0};
        Worker[] worker = {null};
        Worker.Builder builder = Worker.builder(step.client, step.text("queue"), (task, context) -> {
            Json outcome;
            synchronized (handled) {
                outcome = outcomes.get(Math.min(begun[0]++, outcomes.size() - 1));
            }
            boolean lost = !outcome.get("hold").isNull() && hold(outcome.get("hold").asString(), context);
            Map<String, Object> seen = new LinkedHashMap<>();
            seen.put("id", task.id());
            seen.put("payload", task.payload());
            seen.put("attempt", context.attempt());
            seen.put("fence", context.fence());
            seen.put("webhook_id", context.webhookId());
            seen.put("lost", lost);
            synchronized (handled) {
                handled.add(seen);
                ids.add(context.webhookId());
                boolean enough = !count.isNull() && handled.size() == count.asLong();
                if (enough || !distinct.isNull() && ids.size() == distinct.asLong()) {
                    worker[0].stop();
                }
            }
            if ("release".equals(outcome.value())) {
                throw new Release();
            }
            if (!outcome.get("retry_in").isNull()) {
                throw new RetryIn(Mapper.duration(outcome.get("retry_in").asString()), outcome.get("reason").asString());
            }
            if (!outcome.get("fail").isNull()) {
                throw new IllegalStateException(outcome.get("fail").asString());
            }
        });
        builder.concurrency(8).wait(Duration.ofSeconds(5));
        if (!step.with.get("lease").isNull()) {
            builder.lease(Mapper.duration(step.text("lease")));
        }
        worker[0] = builder.build();
        worker[0].run();
        return Map.of("handled", handled, "webhook_ids", ids.size());
    }

    /** Waits, and returns whether the lease was lost meanwhile. */
    private static boolean hold(String time, TaskContext context) {
        try {
            new CountDownLatch(1).await(Mapper.duration(time).toMillis(), TimeUnit.MILLISECONDS);
            return false;
        } catch (InterruptedException err) {
            return context.leaseLost();
        }
    }

    private static Object verify(Step step) {
        Receiver receiver = RECEIVERS.get(step.text("client"));
        byte[] body = step.text("body").getBytes(StandardCharsets.UTF_8);
        Delivery delivery = receiver.verify(name -> text(step.with.get("headers").get(name)), body);
        List<Object> tasks = new ArrayList<>();
        delivery.tasks().forEach(task ->
                tasks.add(Map.of("task", task.task(), "fence", task.fence(), "stale", task.stale())));
        return Map.of("task", delivery.task(), "webhook_id", delivery.webhookId(), "attempt", delivery.attempt(),
                "fence", delivery.fence(), "tasks", tasks);
    }

    private static String text(Json header) {
        return header.value() instanceof List<?> list ? String.valueOf(list.get(0)) : header.asString();
    }

    private static Object open(String client, Json with) {
        Belfry.Builder builder = Belfry.builder();
        builder.addresses(((List<?>) with.get("addresses").value()).toArray(String[]::new));
        builder.key(or(with, "key", "")).namespace(or(with, "namespace", ""));
        builder.timeout(Mapper.duration(or(with, "timeout", "20s")));
        builder.attemptTimeout(Mapper.duration(or(with, "attempt_timeout", "5s")));
        if (!with.get("max_attempts").isNull()) {
            builder.maxAttempts((int) with.get("max_attempts").asLong());
        }
        String traceparent = with.get("traceparent").asString();
        CLIENTS.put(client, builder.traceparent(() -> traceparent).build());
        return null;
    }

    private static String or(Json with, String name, String absent) {
        return with.get(name).isNull() ? absent : with.get(name).asString();
    }

    private static Object receiver(String client, Json with) {
        String[] secrets = ((List<?>) with.get("secrets").value()).toArray(String[]::new);
        Receiver.Builder builder = Receiver.builder(secrets);
        if (!with.get("now").isNull()) {
            Instant now = Instant.ofEpochSecond(with.get("now").asLong());
            builder.clock(Clock.fixed(now, ZoneOffset.UTC));
        }
        RECEIVERS.put(client, builder.build());
        return null;
    }

    private static CallOption[] options(Json with) {
        List<CallOption> options = new ArrayList<>();
        Map<String, Function<String, CallOption>> kinds = Map.of(
                "key", CallOption::idempotencyKey,
                "if_match", revision -> CallOption.ifMatch(Long.parseLong(revision)),
                "if_none_match", any -> CallOption.ifNoneMatch(),
                "timeout", time -> CallOption.timeout(Mapper.duration(time)));
        kinds.forEach((name, kind) -> {
            if (!with.get(name).isNull()) {
                options.add(kind.apply(with.get(name).value().toString()));
            }
        });
        return options.toArray(CallOption[]::new);
    }

    private static Object call(Json request) throws Exception {
        String name = request.get("call").asString();
        String client = request.get("client").asString();
        Map<String, Object> with = new LinkedHashMap<>(members(request.get("with").value()));
        if (name.equals("open")) {
            return open(client, Json.of(with));
        }
        if (name.equals("receiver")) {
            return receiver(client, Json.of(with));
        }
        if (name.equals("verify")) {
            with.put("client", client);
        }
        Map<String, Object> query = new LinkedHashMap<>(members(with.get("query")));
        query.computeIfPresent("label", (label, pairs) -> pairs instanceof Map<?, ?> map
                ? map.entrySet().stream().map(pair -> pair.getKey() + ":" + pair.getValue()).toList()
                : pairs);
        CallOption[] options = options(Json.of(with));
        Call own = CALLS.get(name);
        if (own != null) {
            Map<String, Object> body = members(with.get("body"));
            return own.make(new Step(CLIENTS.get(client), Json.of(with), body, query, options));
        }
        String path = request.get("path").asString() + Mapper.query(query);
        return CLIENTS.get(client).request(request.get("method").asString(), path, with.get("body"), options);
    }

    private static Map<String, Object> error(Throwable err) {
        if (err instanceof VerificationException refusal) {
            return Map.of("type", refusal.reason());
        }
        Map<String, Object> error = new LinkedHashMap<>();
        if (err instanceof ProblemException problem) {
            error.putAll(members(Json.parse(Mapper.API.encode(problem.problem())).value()));
            error.put("type", problem.type());
        } else {
            error.put("type", err instanceof BelfryTimeoutException ? "timeout"
                    : err instanceof ConnectionException ? "connection"
                    : err instanceof ProtocolException ? "protocol"
                    : err instanceof CancelledException ? "cancelled" : "other");
        }
        error.put("committed", err instanceof BelfryException failure ? failure.committed() : null);
        error.put("text", String.valueOf(err.getMessage()));
        return error;
    }

    private static void answer(String line) {
        Json request = Json.parse(line);
        String cancelAfter = request.get("with").get("cancel_after").asString();
        Thread caller = Thread.currentThread();
        Future<?> cancel = cancelAfter == null
                ? CompletableFuture.completedFuture(null)
                : TIMER.schedule(caller::interrupt, Mapper.duration(cancelAfter).toMillis(), TimeUnit.MILLISECONDS);
        Map<String, Object> answer = new LinkedHashMap<>(Map.of("id", request.get("id")));
        try {
            answer.put("result", call(request));
        } catch (Exception err) {
            answer.put("error", error(err));
        }
        cancel.cancel(false);
        Thread.interrupted();
        String text = Mapper.API.encode(answer);
        OUT.println(text);
    }

    public static void main(String[] args) throws IOException {
        ExecutorService calls = Threads.executor("calls");
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String request = line;
                calls.execute(() -> answer(request));
            }
        }
        System.exit(0);
    }
}
