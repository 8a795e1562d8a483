package io.github.belfryhq.client;

import java.lang.reflect.Type;

/** The payload of a task: JSON, which the client's codec turns into a type of the caller's. */
public final class Payload {
    private final Json json;
    private final Codec codec;

    Payload(Json json, Codec codec) {
        this.json = json;
        this.codec = codec;
    }

    public Json json() {
        return json;
    }

    /** Returns the payload as a class, such as a record with the names of its members. */
    public <T> T as(Class<T> type) {
        return codec.decode(json, type);
    }

    /** Returns the payload as a type, such as a list of records. */
    public <T> T as(Type type) {
        return codec.decode(json, type);
    }

    /** Returns the JSON text. */
    @Override
    public String toString() {
        return json.toString();
    }
}
