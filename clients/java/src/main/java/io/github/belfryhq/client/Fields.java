package io.github.belfryhq.client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;

/** The fields of a request, which is immutable: each method returns a changed copy. Absent fields are the service's defaults. */
public abstract class Fields<T extends Fields<T>> {
    /** By the names of the API. */
    final Map<String, Object> fields;

    private final Function<Map<String, Object>, T> copy;

    Fields(Map<String, Object> fields, Function<Map<String, Object>, T> copy) {
        this.fields = fields;
        this.copy = copy;
    }

    T copy(Map<String, Object> changed) {
        return copy.apply(changed);
    }

    T with(String name, Object value) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        changed.put(name, Objects.requireNonNull(value, name));
        return copy(changed);
    }

    /** Sets a member within a field that is an object. */
    T with(String name, String member, Object value) {
        Map<String, Object> changed = new LinkedHashMap<>();
        if (fields.get(name) instanceof Map<?, ?> before) {
            before.forEach((key, old) -> changed.put((String) key, old));
        }
        changed.put(member, value);
        return with(name, changed);
    }

    /** Adds an item to a field that is a list. */
    T add(String name, Object item) {
        List<Object> items = new ArrayList<>();
        if (fields.get(name) instanceof List<?> before) {
            items.addAll(before);
        }
        items.add(item);
        return with(name, items);
    }

    /** Sets a field to null, or a member of a field, which a merge patch takes as its default. */
    T without(String name, String... path) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        Map<String, Object> at = changed;
        String last = name;
        for (String member : path) {
            Map<String, Object> inner = new LinkedHashMap<>();
            if (Json.parse(Mapper.API.encode(at.get(last))).value() instanceof Map<?, ?> before) {
                before.forEach((key, old) -> inner.put((String) key, old));
            }
            at.put(last, inner);
            at = inner;
            last = member;
        }
        at.put(last, null);
        return copy(changed);
    }

    /** Returns the fields by the names of the API. Payloads are those that {@link Codec#RECORDS} handles. */
    public Json json() {
        return Json.parse(Mapper.API.encode(this));
    }
}
