package io.github.belfryhq.client;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Maps records to JSON objects and back. The mapper of the API writes names in snake_case, and leaves absent fields out. The
 * one of payloads keeps names as they are.
 */
final class Mapper implements Codec {
    /** The mapper of requests without payloads of the caller's types. */
    static final Mapper API = new Mapper(true);

    private static final Pattern DURATION = Pattern.compile("(\\d+(?:\\.\\d+)?)(ns|us|µs|ms|s|m|h|d)");
    private static final Pattern UPPER = Pattern.compile("[A-Z]|(?<=due)1"); // due_1m, but payload_base64
    private static final Map<String, Long> NANOS = Map.of(
            "ns", 1L, "us", 1_000L, "µs", 1_000L, "ms", 1_000_000L, "s", 1_000_000_000L, "m", 60_000_000_000L,
            "h", 3_600_000_000_000L, "d", 86_400_000_000_000L);

    private final boolean api;
    private final Codec payloads;

    Mapper(boolean api) {
        this(api, null);
    }

    private Mapper(boolean api, Codec payloads) {
        this.api = api;
        this.payloads = payloads;
    }

    /** Returns the mapper of the API with a codec of payloads. */
    static Mapper of(Codec payloads) {
        return new Mapper(true, payloads);
    }

    Codec payloads() {
        return payloads == null ? Codec.RECORDS : payloads;
    }

    /** A value that the codec of payloads writes. */
    record Foreign(Object value) {}

    @Override
    public String encode(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private void write(StringBuilder out, Object value) {
        if (value instanceof Map<?, ?> map) {
            char before = '{';
            for (Map.Entry<?, ?> member : map.entrySet()) {
                Json.quote(out.append(before), (String) member.getKey());
                write(out.append(':'), member.getValue());
                before = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> items) {
            char before = '[';
            for (Object item : items) {
                write(out.append(before), item);
                before = ',';
            }
            out.append(items.isEmpty() ? "[]" : "]");
        } else if (value instanceof Foreign foreign) {
            out.append(payloads().encode(foreign.value()));
        } else if (value instanceof Fields<?> request) {
            write(out, request.fields);
        } else if (value instanceof Record) {
            write(out, Shape.OF.get(value.getClass()).members(value, api));
        } else if (value instanceof Json || value instanceof Payload) {
            out.append(value);
        } else if (value instanceof Instant || value instanceof UUID || value instanceof Duration) {
            Json.quote(out, text(value));
        } else if (value instanceof Enum<?> constant) {
            Json.quote(out, api ? text(constant) : constant.name());
        } else {
            Json.scalar(out, value);
        }
    }

    /** Returns a value as the API writes it in texts and queries. */
    static String text(Object value) {
        if (value instanceof Enum<?> constant) {
            return constant.name().toLowerCase(Locale.ROOT);
        }
        if (value instanceof Duration duration) {
            return duration.isNegative() ? "-" + text(duration.negated()) : text(duration);
        }
        return value.toString();
    }

    /** Returns a duration such as 48h or 1m0.5s. */
    private static String text(Duration duration) {
        BigDecimal seconds = BigDecimal.valueOf(duration.toSecondsPart()).add(BigDecimal.valueOf(duration.getNano(), 9));
        String text = (duration.toHours() == 0 ? "" : duration.toHours() + "h")
                + (duration.toMinutesPart() == 0 ? "" : duration.toMinutesPart() + "m")
                + (seconds.signum() == 0 ? "" : seconds.stripTrailingZeros().toPlainString() + "s");
        return text.isEmpty() ? "0s" : text;
    }

    /** Returns the query of a filter, with its question mark, or "". Lists repeat their name. */
    static String query(Map<String, Object> filter) {
        StringJoiner query = new StringJoiner("&", "?", "").setEmptyValue("");
        filter.forEach((name, value) -> {
            for (Object one : value instanceof List<?> list ? list : List.of(value)) {
                query.add(name + "=" + URLEncoder.encode(text(one), StandardCharsets.UTF_8));
            }
        });
        return query.toString();
    }

    /** Reads a duration as the API writes it, or one of ISO 8601. */
    static Duration duration(String text) {
        if (text.startsWith("P")) {
            return Duration.parse(text);
        }
        boolean negative = text.startsWith("-");
        String rest = negative ? text.substring(1) : text;
        BigDecimal nanos = BigDecimal.ZERO;
        Matcher part = DURATION.matcher(rest);
        int at = 0;
        for (; part.find() && part.start() == at; at = part.end()) {
            nanos = nanos.add(new BigDecimal(part.group(1)).multiply(BigDecimal.valueOf(NANOS.get(part.group(2)))));
        }
        if (at == 0 || at < rest.length()) {
            throw new IllegalArgumentException(text + " is not a duration such as 30s");
        }
        BigInteger[] parts = nanos.toBigInteger().divideAndRemainder(BigInteger.valueOf(1_000_000_000));
        Duration sum = Duration.ofSeconds(parts[0].longValueExact(), parts[1].longValueExact());
        return negative ? sum.negated() : sum;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T decode(Json json, Type type) {
        return (T) convert(type, json.value());
    }

    /** Returns the record of an object. */
    <T> T bind(Class<T> type, Map<String, Object> members) {
        return type.cast(convert(type, members));
    }

    @SuppressWarnings("unchecked")
    private Object convert(Type type, Object value) {
        if (type == Json.class) {
            return Json.of(value);
        }
        if (value == null) {
            return type instanceof Class<?> c && c.isPrimitive() ? scalar(c, type == boolean.class ? false : 0L) : null;
        }
        if (type instanceof ParameterizedType generic) {
            Type[] arguments = generic.getActualTypeArguments();
            if (value instanceof List<?> list && generic.getRawType() == List.class) {
                List<Object> items = new ArrayList<>(list.size());
                list.forEach(item -> items.add(convert(arguments[0], item)));
                return items;
            }
            if (value instanceof Map<?, ?> map && generic.getRawType() == Map.class) {
                Map<Object, Object> members = new LinkedHashMap<>();
                map.forEach((name, member) -> members.put(name, convert(arguments[1], member)));
                return members;
            }
        } else if (type instanceof Class<?> c) {
            if (value instanceof Map<?, ?> map && c.isRecord()) {
                return Shape.OF.get(c).make((Map<String, Object>) map, api, this::convert);
            }
            if (value instanceof Map<?, ?> map && Fields.class.isAssignableFrom(c)) {
                return request(c, (Map<String, Object>) map);
            }
            return scalar(c, value);
        }
        throw mismatch(type);
    }

    /** Returns a part of an answer that has the form of a request. */
    private static Fields<?> request(Class<?> type, Map<String, Object> fields) {
        if (type == Repeat.class) {
            return new Repeat(fields);
        }
        return type == FollowUp.class ? new FollowUp(fields) : new TaskContent(fields);
    }

    private Object scalar(Class<?> type, Object value) {
        if (type == Payload.class) {
            return new Payload(Json.of(value), payloads());
        }
        if (type.isInstance(value) || type == boolean.class && value instanceof Boolean) {
            return value;
        }
        if (value instanceof Long number && (type == int.class || type == long.class)) { // most numbers
            return type == int.class ? (Object) Math.toIntExact(number) : number;
        }
        if (value instanceof Number) {
            return number(type, new BigDecimal(value.toString()));
        }
        if (value instanceof String text) {
            if (type == Instant.class) {
                return instant(text);
            }
            if (type == Duration.class) {
                return duration(text);
            }
            if (type == UUID.class) {
                return UUID.fromString(text);
            }
            if (type.isEnum()) {
                return constant(type, text);
            }
        }
        throw mismatch(type);
    }

    /** Reads an instant of the form of an answer by its digits, since the general parser costs many times as much. */
    private static Instant instant(String text) {
        if (text.length() != 24 || text.charAt(19) != '.' || text.charAt(23) != 'Z') {
            return Instant.parse(text);
        }
        return LocalDateTime.of(
                        digits(text, 0, 4), digits(text, 5, 7), digits(text, 8, 10), digits(text, 11, 13),
                        digits(text, 14, 16), digits(text, 17, 19), 1_000_000 * digits(text, 20, 23))
                .toInstant(ZoneOffset.UTC);
    }

    private static int digits(String text, int from, int to) {
        return Integer.parseInt(text, from, to, 10);
    }

    private static Object number(Class<?> type, BigDecimal number) {
        if (type == int.class || type == Integer.class) {
            return number.intValueExact();
        }
        if (type == long.class || type == Long.class) {
            return number.longValueExact();
        }
        if (type == double.class || type == Double.class) {
            return number.doubleValue();
        }
        if (type == BigInteger.class) {
            return number.toBigIntegerExact();
        }
        if (type == BigDecimal.class) {
            return number;
        }
        throw mismatch(type);
    }

    /** Returns the constant of a name. A name that a later service may have added is OTHER. */
    private Object constant(Class<?> type, String text) {
        Object other = null;
        for (Object one : type.getEnumConstants()) {
            String name = ((Enum<?>) one).name();
            if (name.equals(text) || api && name.equalsIgnoreCase(text)) {
                return one;
            }
            other = api && name.equals("OTHER") ? one : other;
        }
        if (other == null) {
            throw mismatch(type);
        }
        return other;
    }

    private static IllegalArgumentException mismatch(Type type) {
        return new IllegalArgumentException("the JSON value is no " + type.getTypeName());
    }

    /** A record's class, with its components in their order. */
    private record Shape(Constructor<?> constructor, Method[] accessors, Type[] types, String[] names, String[] snakeNames) {
        static final ClassValue<Shape> OF = new ClassValue<>() {
            @Override
            protected Shape computeValue(Class<?> type) {
                RecordComponent[] components = type.getRecordComponents();
                Class<?>[] classes = new Class<?>[components.length];
                Method[] accessors = new Method[components.length];
                Type[] types = new Type[components.length];
                String[] names = new String[components.length];
                String[] snakeNames = new String[components.length];
                for (int i = 0; i < components.length; i++) {
                    classes[i] = components[i].getType();
                    accessors[i] = components[i].getAccessor();
                    accessors[i].trySetAccessible();
                    types[i] = components[i].getGenericType();
                    names[i] = components[i].getName();
                    snakeNames[i] = snake(names[i]);
                }
                try {
                    Constructor<?> constructor = type.getDeclaredConstructor(classes);
                    constructor.trySetAccessible();
                    return new Shape(constructor, accessors, types, names, snakeNames);
                } catch (NoSuchMethodException err) {
                    throw new IllegalStateException(err); // each record has this constructor
                }
            }
        };

        Map<String, Object> members(Object value, boolean api) {
            Map<String, Object> members = new LinkedHashMap<>();
            for (int i = 0; i < names.length; i++) {
                try {
                    Object member = accessors[i].invoke(value);
                    if (member != null || !api) {
                        members.put(api ? snakeNames[i] : names[i], member);
                    }
                } catch (ReflectiveOperationException err) {
                    throw new IllegalArgumentException("the record cannot be read: " + accessors[i], err);
                }
            }
            return members;
        }

        Object make(Map<String, Object> members, boolean api, BiFunction<Type, Object, Object> convert) {
            Object[] values = new Object[names.length];
            for (int i = 0; i < names.length; i++) {
                values[i] = convert.apply(types[i], members.get(api ? snakeNames[i] : names[i]));
            }
            try {
                return constructor.newInstance(values);
            } catch (ReflectiveOperationException err) {
                throw new IllegalArgumentException("the record cannot be made: " + constructor, err);
            }
        }
    }

    /** Returns a name in snake_case. */
    static String snake(String name) {
        return UPPER.matcher(name).replaceAll(found -> "_" + found.group().toLowerCase(Locale.ROOT));
    }
}
