package io.github.belfryhq.client;

import java.math.BigDecimal;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * A JSON value: a map, a list, a string, a number, a boolean or null. Integers are exact, of any size. Members keep their
 * order.
 */
public final class Json {
    private final Object value;

    private Json(Object value) {
        this.value = value;
    }

    /**
     * Reads a JSON text.
     *
     * @throws IllegalArgumentException if the text is not JSON; the message has the place, and nothing of the text
     */
    public static Json parse(String text) {
        return new Json(new JsonReader(text).document());
    }

    /** Returns the JSON of maps with string keys, collections, strings, numbers, booleans and null. */
    public static Json of(Object value) {
        return value instanceof Json json ? json : new Json(value);
    }

    /** Returns a member of an object. It is null if there is no such member. */
    public Json get(String name) {
        return new Json(value instanceof Map<?, ?> map ? map.get(name) : null);
    }

    /** Returns an item of an array. */
    public Json get(int index) {
        return new Json(as(List.class).get(index));
    }

    /** Returns the number of an array's items or an object's members, and 0 for any other value. */
    public int size() {
        return value instanceof List<?> list ? list.size() : value instanceof Map<?, ?> map ? map.size() : 0;
    }

    public boolean isNull() {
        return value == null;
    }

    /** Returns a string, or null for null. */
    public String asString() {
        return value == null ? null : as(String.class);
    }

    public boolean asBoolean() {
        return as(Boolean.class);
    }

    /** Returns an integer. Throws an ArithmeticException if the number has a fraction or does not fit. */
    public long asLong() {
        return asBigDecimal().longValueExact();
    }

    public BigDecimal asBigDecimal() {
        return new BigDecimal(as(Number.class).toString());
    }

    /** Returns the plain value: Map, List, String, Long, BigInteger, BigDecimal, Boolean or null. */
    public Object value() {
        return value;
    }

    private <T> T as(Class<T> type) {
        if (!type.isInstance(value)) {
            throw new IllegalStateException("the JSON value is no " + type.getSimpleName());
        }
        return type.cast(value);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Json json && Objects.equals(value, json.value);
    }

    @Override
    public int hashCode() {
        return Objects.hashCode(value);
    }

    /** Returns the JSON text. */
    @Override
    public String toString() {
        return Codec.RECORDS.encode(value);
    }

    /** Writes null, a string, a number or a boolean. */
    static void scalar(StringBuilder out, Object value) {
        if (value instanceof CharSequence text) {
            quote(out, text);
        } else if (value instanceof Double || value instanceof Float) {
            if (!Double.isFinite(((Number) value).doubleValue())) {
                throw new IllegalArgumentException("JSON has no number for " + value);
            }
            out.append(value);
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            throw new IllegalArgumentException("JSON has no form for " + value.getClass().getName());
        }
    }

    /** Writes a string. Half of a surrogate pair is escaped, since UTF-8 has no form for it. */
    static void quote(StringBuilder out, CharSequence text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c >= ' ' && !Character.isSurrogate(c)) {
                out.append(c);
            } else if (i + 1 < text.length() && Character.isSurrogatePair(c, text.charAt(i + 1))) {
                out.append(c).append(text.charAt(++i));
            } else {
                out.append(String.format("\\u%04x", (int) c));
            }
        }
        out.append('"');
    }
}
