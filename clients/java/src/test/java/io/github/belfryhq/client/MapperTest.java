package io.github.belfryhq.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.belfryhq.client.jackson.JacksonCodec;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class MapperTest {
    private static String json(Object value) {
        return Mapper.API.encode(value);
    }

    @Test
    void namesChangeAndTheCallersStay() {
        NewTask task = Task.at(Instant.EPOCH)
                .payload(Map.of("camelCase", 1))
                .label("aB", "c")
                .retry(Retry.attempts(3).withBackoff(Duration.ofMillis(1_500), Duration.ofDays(1)))
                .target(Target.of("u").withHeader("X-a", "b"));
        assertEquals(
                "{\"fire_at\":\"1970-01-01T00:00:00Z\",\"payload\":{\"camelCase\":1},\"labels\":{\"aB\":\"c\"},"
                        + "\"retry\":{\"max_attempts\":3,\"min_backoff\":\"1.5s\",\"max_backoff\":\"24h\"},"
                        + "\"target\":{\"url\":\"u\",\"headers\":{\"X-a\":\"b\"}}}",
                json(task));
    }

    @Test
    void requestsAreImmutable() {
        NewTask task = Task.in(Duration.ofHours(1)).label("a", "b");
        task.label("c", "d").payloadBytes(new byte[] {1}).payload(2);
        assertEquals("{\"delay\":\"1h\",\"labels\":{\"a\":\"b\"}}", json(task));
    }

    @Test
    void oneOfTwoHolds() {
        NewTask task = Task.in(Duration.ZERO);
        assertEquals("{\"delay\":\"0s\",\"payload\":2}", json(task.payloadBytes(new byte[] {1}).payload(2)));
        assertEquals("{\"delay\":\"0s\",\"payload_base64\":\"AQ==\"}", json(task.payload(2).payloadBytes(new byte[] {1})));
        assertEquals("{\"append\":[1]}", json(new Touch().payload(2).append(1)));
        assertEquals("{\"delay\":\"1s\"}", json(new TaskPatch().at(Instant.EPOCH).in(Duration.ofSeconds(1))));
        assertEquals("{\"after\":\"e\"}", json(new EventFilter().since(Duration.ZERO).after("e")));
    }

    @Test
    void patchesRestoreDefaults() {
        TaskPatch patch = new TaskPatch().label("c", "d").clear("labels", "a").retry(Retry.attempts(2));
        assertEquals(
                "{\"labels\":{\"c\":\"d\",\"a\":null},\"retry\":{\"max_attempts\":2,\"min_backoff\":null},\"target\":null}",
                json(patch.clear("retry", "min_backoff").clear("target")));
    }

    @Test
    void answersAreRecords() {
        Task task = Mapper.API.bind(Task.class, Transport.members(
                """
                {"id":"t","revision":9007199254740993,"next_attempt_at":null,"state":"melting","attempts":1,
                 "fire_at":"2026-01-02T03:04:05.678Z","payload":{"a_b":[1]},"payload_base64":"AQI=","unknown":1,
                 "retry":{"delays":["1s","1h30m"]},"history":[{"attempt":1,"fence":18446744073709551615,"node":""}]}"""));
        assertEquals(9007199254740993L, task.revision());
        assertEquals(Task.State.OTHER, task.state());
        assertEquals(Instant.parse("2026-01-02T03:04:05.678Z"), task.fireAt());
        assertNull(task.nextAttemptAt());
        for (String at : List.of("2026-01-02T03:04:05Z", "1969-12-31T23:59:59.001Z", "2024-02-29T00:00:00.100000001Z")) {
            Task found = Mapper.API.bind(Task.class, Transport.members("{\"id\":\"t\",\"fire_at\":\"" + at + "\"}"));
            assertEquals(Instant.parse(at), found.fireAt());
        }
        assertEquals("{\"a_b\":[1]}", task.payload().toString());
        assertArrayEquals(new byte[] {1, 2}, task.payloadBytes());
        assertEquals(List.of(Duration.ofSeconds(1), Duration.ofMinutes(90)), task.retry().delays());
        assertEquals(new BigInteger("18446744073709551615"), task.history().get(0).fence());
    }

    @Test
    void queriesRepeatLists() {
        assertEquals("", Mapper.query(new TaskFilter().fields));
        TaskFilter filter = new TaskFilter().dueAfter(Instant.EPOCH).state(Task.State.DEAD, Task.State.READY);
        assertEquals(
                "?due_after=1970-01-01T00%3A00%3A00Z&state=dead&state=ready&label=a%3Ab&label=c%3Ad+e",
                Mapper.query(filter.label("a", "b").label("c", "d e").fields));
        assertEquals(
                "?type=delivered%2Cdead&follow=false",
                Mapper.query(new EventFilter().types(TaskEvent.Type.DELIVERED, TaskEvent.Type.DEAD).follow(false).fields));
    }

    @ParameterizedTest
    @CsvSource({"500ms,0.5s", "1.5s,1.5s", "1h30m,1h30m", "7d,168h", "PT30M,30m", "-2h,-2h", "0s,0s", "1us,0.000001s"})
    void durations(String text, String written) {
        assertEquals(written, Mapper.text(Mapper.duration(text)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "1", "s", "1s-", "1s 2s", "-"})
    void otherDurationsAreRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Mapper.duration(text));
    }

    private enum Kind {
        GOODS_IN
    }

    private record Order(int number, Kind kind, UUID id, Duration pause, List<Item> items, Map<String, Long> stock, Json rest) {}

    private record Item(String articleNumber, Double price, boolean gift) {}

    @Test
    void recordsAreAPayload() {
        Order order = new Order(7, Kind.GOODS_IN, new UUID(1, 2), Duration.ofSeconds(3), List.of(new Item("ä", 1.5, true)),
                Map.of("a", 1L), Json.parse("{\"x\":[null]}"));
        Payload payload = new Payload(Json.parse(Codec.RECORDS.encode(order)), Codec.RECORDS);
        assertEquals(order, payload.as(Order.class));
        assertEquals("ä", payload.json().get("items").get(0).get("articleNumber").asString());
        assertThrows(IllegalArgumentException.class, () -> payload.as(String.class));
    }

    private record Renamed(@JsonProperty("order_number") int number) {}

    @Test
    void jacksonIsAPayload() {
        Codec codec = new JacksonCodec(new ObjectMapper());
        String text = Mapper.of(codec).encode(Task.in(Duration.ofHours(1)).payload(new Renamed(7)));
        assertEquals("{\"delay\":\"1h\",\"payload\":{\"order_number\":7}}", text);
        assertEquals(new Renamed(7), new Payload(Json.parse("{\"order_number\":7}"), codec).as(Renamed.class));
        assertEquals("[1]", codec.encode(Json.parse("[1]")));
        String message = assertThrows(
                        IllegalArgumentException.class,
                        () -> codec.decode(Json.parse("{\"order_number\":\"s3\"}"), Renamed.class))
                .getMessage();
        assertTrue(message.endsWith("[\"order_number\"]"), message);
        assertFalse(message.contains("s3"), message);
    }

    @Test
    void reasonsAreCutToBytes() {
        assertEquals(512, Worker.reasonOf(new Exception("ä".repeat(300))).getBytes(StandardCharsets.UTF_8).length);
        assertEquals("IllegalStateException", Worker.reasonOf(new IllegalStateException()));
    }
}
