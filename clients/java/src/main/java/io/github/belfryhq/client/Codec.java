package io.github.belfryhq.client;

import java.lang.reflect.Type;

/** Turns the caller's payloads into JSON and back. */
public interface Codec {
    /**
     * Handles {@link Json}, maps, collections, strings, numbers, booleans, enums, instants, durations, and records of
     * these. It needs no library.
     */
    Codec RECORDS = new Mapper(false);

    /** Returns the JSON text of a payload. */
    String encode(Object payload);

    /** Returns the payload of a JSON value as a type, which is a class or a parameterized type. */
    <T> T decode(Json json, Type type);
}
