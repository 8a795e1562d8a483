package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.Reader;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.yaml.snakeyaml.Yaml;

/** Holds the types and httpapi/openapi.yaml together: a name that one of them lacks fails. */
class TypesTest {
    private final Map<?, ?> contract;

    TypesTest() throws IOException {
        try (Reader in = Files.newBufferedReader(Path.of("../../httpapi/openapi.yaml"))) {
            contract = new Yaml().load(in);
        }
    }

    private Object at(Object from, Object... path) {
        Object value = from;
        for (Object part : path) {
            value = value instanceof List<?> list ? list.get((Integer) part) : ((Map<?, ?>) value).get(part);
            if (value instanceof Map<?, ?> map && map.get("$ref") instanceof String ref) {
                value = at(contract, (Object[]) ref.substring(2).split("/"));
            }
        }
        return value;
    }

    private Object schema(Object... path) {
        Object schemas = at(contract, "components", "schemas");
        return at(schemas, path);
    }

    private Set<String> properties(Object... path) {
        return names(((Map<?, ?>) at(schema(path), "properties")).keySet());
    }

    private static Set<String> names(Collection<?> names) {
        Set<String> all = new TreeSet<>();
        names.forEach(name -> all.add((String) name));
        return all;
    }

    private Set<String> parameters(String path, String method) {
        List<String> names = new ArrayList<>();
        Object list = at(contract, "paths", path, method, "parameters");
        for (int i = 0; i < ((List<?>) list).size(); i++) {
            if (at(list, i, "in").equals("query") && !at(list, i, "name").equals("cursor")) {
                names.add((String) at(list, i, "name"));
            }
        }
        return names(names);
    }

    private static Set<String> components(Class<?> type) {
        return names(Arrays.stream(type.getRecordComponents()).map(RecordComponent::getName).map(Mapper::snake).toList());
    }

    private static Set<String> constants(Class<? extends Enum<?>> type, String... without) {
        Set<String> names = names(Arrays.stream(type.getEnumConstants()).map(c -> c.name().toLowerCase(Locale.ROOT)).toList());
        names.remove("other");
        names.removeAll(Set.of(without));
        return names;
    }

    private static Set<String> and(Set<String> names, String... more) {
        names.addAll(Arrays.asList(more));
        return names;
    }

    private static Set<String> without(Set<String> names, String... fewer) {
        names.removeAll(Arrays.asList(fewer));
        return names;
    }

    /** Returns the fields that the methods and factories of a request can set. */
    private static Set<String> settable(Class<? extends Fields<?>> type) throws ReflectiveOperationException {
        Set<String> names = new TreeSet<>();
        Constructor<?> constructor = type.getDeclaredConstructor(Map.class);
        Object empty = constructor.newInstance(Map.of());
        for (Method method : type.getMethods()) {
            if (Fields.class.isAssignableFrom(method.getReturnType())) {
                Object[] arguments = Arrays.stream(method.getParameterTypes()).map(TypesTest::example).toArray();
                Object changed = method.invoke(Modifier.isStatic(method.getModifiers()) ? null : empty, arguments);
                names.addAll(((Fields<?>) changed).fields.keySet());
            }
        }
        return without(names, "example"); // set by clear
    }

    private static Object example(Class<?> type) {
        if (type.isArray()) {
            Object array = Array.newInstance(type.getComponentType(), type == byte[].class || type == String[].class ? 0 : 1);
            if (Array.getLength(array) > 0) {
                Array.set(array, 0, example(type.getComponentType()));
            }
            return array;
        }
        if (type.isEnum()) {
            return type.getEnumConstants()[0];
        }
        Map<Class<?>, Object> examples = Map.ofEntries(
                Map.entry(String.class, "example"),
                Map.entry(Object.class, "example"),
                Map.entry(int.class, 1),
                Map.entry(long.class, 1L),
                Map.entry(double.class, 1.5),
                Map.entry(boolean.class, true),
                Map.entry(Duration.class, Duration.ZERO),
                Map.entry(Instant.class, Instant.EPOCH),
                Map.entry(Map.class, Map.of()),
                Map.entry(Target.class, Target.of("")),
                Map.entry(Retry.class, Retry.attempts(1)),
                Map.entry(Window.class, Window.of("")),
                Map.entry(Repeat.class, new Repeat(Map.of())),
                Map.entry(TaskContent.class, new TaskContent(Map.of())),
                Map.entry(FollowUp.class, new FollowUp(Map.of())),
                Map.entry(TaskFilter.class, new TaskFilter()),
                Map.entry(TaskPatch.class, new TaskPatch()),
                Map.entry(SchedulePatch.class, new SchedulePatch()),
                Map.entry(Touch.class, new Touch()),
                Map.entry(NewTask.class, new NewTask(Map.of())));
        return examples.get(type);
    }

    @Test
    void answersHaveTheNamesOfTheContract() {
        assertEquals(and(properties("Task"), "created"), components(Task.class));
        assertEquals(properties("LeasedTask"), without(
                and(components(Task.class), "receipt", "attempt", "fence"), "created", "previous"));
        assertEquals(properties("History", "items"), components(Task.Attempt.class));
        assertEquals(properties("Target"), components(Target.class));
        assertEquals(properties("Auth"), components(Auth.class));
        assertEquals(properties("Auth", "properties", "jwt"), components(Auth.Jwt.class));
        assertEquals(properties("Retry"), components(Retry.class));
        assertEquals(properties("Window"), components(Window.class));
        assertEquals(properties("SettleResult"), components(SettleResult.class));
        assertEquals(properties("BatchAnswer"), components(BatchResult.class));
        assertEquals(properties("Queue"), components(Queue.class));
        assertEquals(properties("QueueCounts"), components(Queue.Counts.class));
        assertEquals(properties("BrokenReceiver"), components(Queue.Broken.class));
        assertEquals(properties("Schedule"), components(Schedule.class));
        assertEquals(properties("Occurrences"), components(Schedule.Occurrences.class));
        assertEquals(properties("Occurrences", "properties", "next", "items"), components(Schedule.Next.class));
        assertEquals(properties("Occurrences", "properties", "last", "items"), components(Schedule.Last.class));
        assertEquals(properties("Preview"), components(Preview.class));
        assertEquals(properties("Preview", "properties", "occurrences", "items"), components(Preview.Occurrence.class));
        assertEquals(properties("Preview", "properties", "excluded", "items"), components(Preview.Excluded.class));
        assertEquals(properties("Event"), components(TaskEvent.class));
        assertEquals(properties("TaskHistory"), components(TaskHistory.class));
        assertEquals(properties("Problem"), components(Problem.class));
        Set<String> ours = components(Operation.class);
        ours.removeAll(properties("Operation"));
        assertEquals(Set.of(), ours);
    }

    @Test
    void requestsHaveTheNamesOfTheContract() throws ReflectiveOperationException {
        assertEquals(properties("TaskRequest"), and(settable(NewTask.class), "fire_at", "delay")); // by Task.at and Task.in
        assertEquals(properties("TaskPatch"), settable(TaskPatch.class));
        assertEquals(properties("Touch"), settable(Touch.class));
        assertEquals(properties("Settle"), settable(Settlement.class));
        assertEquals(without(properties("QueueRequest"), "queue"), settable(QueuePolicy.class));
        assertEquals(without(properties("QueuePatch"), "queue"), settable(QueuePatch.class));
        assertEquals(without(properties("ScheduleRequest"), "id"), settable(NewSchedule.class));
        assertEquals(without(properties("SchedulePatch"), "id"), settable(SchedulePatch.class));
        assertEquals(properties("ScheduledTask"), settable(TaskContent.class));
        assertEquals(properties("FollowUp"), settable(FollowUp.class));
        assertEquals(properties("Repeat"), settable(Repeat.class));
        assertEquals(without(properties("BulkOperation"), "dry_run"), settable(NewOperation.class));
        assertEquals(properties("BatchLine"), settable(BatchOp.class));
    }

    @Test
    void filtersHaveTheParametersOfTheContract() throws ReflectiveOperationException {
        assertEquals(and(parameters("/v1/tasks", "get"), "id"), settable(TaskFilter.class)); // id: of dead letters
        Set<String> rest = properties("BulkFilter");
        rest.removeAll(settable(TaskFilter.class));
        assertEquals(Set.of(), rest);
        assertEquals(parameters("/v1/events", "get"), settable(EventFilter.class));
    }

    @Test
    void constantsAreThoseOfTheContract() {
        assertEquals(names((List<?>) at(schema("State"), "enum")), constants(Task.State.class));
        assertEquals(names((List<?>) at(schema("Outcome"), "enum")), constants(Task.Outcome.class));
        assertEquals(names((List<?>) at(schema("Misfire"), "enum")), constants(Schedule.Misfire.class));
        assertEquals(names((List<?>) at(schema("Overlap"), "enum")), constants(Schedule.Overlap.class));
        assertEquals(names((List<?>) at(schema("Event"), "properties", "type", "enum")),
                constants(TaskEvent.Type.class, "gap"));
        List<String> types = new ArrayList<>();
        ProblemException.types().forEach(type -> types.add("urn:belfry:problem:" + type));
        assertEquals(names((List<?>) at(schema("Problem"), "properties", "type", "enum")), names(types));
    }
}
