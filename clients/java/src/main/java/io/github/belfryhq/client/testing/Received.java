package io.github.belfryhq.client.testing;

import io.github.belfryhq.client.Codec;
import io.github.belfryhq.client.Json;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;

/** One attempt as its receiver saw it. Names of headers are in lower case. */
public record Received(
        String task, String webhookId, int attempt, Instant due, Map<String, String> headers, byte[] body) {

    /** Returns the body as JSON. */
    public Json json() {
        return Json.parse(new String(body, StandardCharsets.UTF_8));
    }

    /** Returns the payload as a class, such as a record. */
    public <T> T payload(Class<T> type) {
        return Codec.RECORDS.decode(json(), type);
    }
}
