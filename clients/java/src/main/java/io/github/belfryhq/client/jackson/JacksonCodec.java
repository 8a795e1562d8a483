package io.github.belfryhq.client.jackson;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.belfryhq.client.Codec;
import io.github.belfryhq.client.Json;
import java.lang.reflect.Type;

/** Turns payloads into JSON and back by Jackson, which the program adds to its dependencies. */
public final class JacksonCodec implements Codec {
    private final ObjectMapper mapper;

    public JacksonCodec(ObjectMapper mapper) {
        this.mapper = mapper;
    }

    /** Returns the JSON text of a payload. A {@link Json} stays as it is. */
    @Override
    public String encode(Object payload) {
        try {
            return payload instanceof Json ? payload.toString() : mapper.writeValueAsString(payload);
        } catch (JsonProcessingException err) {
            throw new IllegalArgumentException("cannot write the payload" + place(err), err);
        }
    }

    @Override
    public <T> T decode(Json json, Type type) {
        try {
            return mapper.readValue(json.toString(), mapper.constructType(type));
        } catch (JsonProcessingException err) {
            throw new IllegalArgumentException("cannot read the payload as " + type.getTypeName() + place(err), err);
        }
    }

    /** Names the field alone, since Jackson's own message shows values of the payload, and a worker tells it to the queue. */
    private static String place(JsonProcessingException err) {
        return err instanceof JsonMappingException mapping ? " at " + mapping.getPathReference() : "";
    }
}
