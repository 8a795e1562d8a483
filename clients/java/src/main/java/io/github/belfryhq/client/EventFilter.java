package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** The choice of events. Without {@code since} and {@code after}, those from now on. */
public final class EventFilter extends Fields<EventFilter> {
    /** Selects all events. */
    public EventFilter() {
        this(Map.of());
    }

    EventFilter(Map<String, Object> fields) {
        super(fields, EventFilter::new);
    }

    public EventFilter queue(String queue) {
        return with("queue", queue);
    }

    public EventFilter types(TaskEvent.Type... types) {
        return with("type", Arrays.stream(types).map(Mapper::text).collect(Collectors.joining(",")));
    }

    /** Selects tasks whose ids begin with a text. */
    public EventFilter prefix(String prefix) {
        return with("prefix", prefix);
    }

    /** Selects tasks with a label. A second call adds a condition. */
    public EventFilter label(String name, String value) {
        return add("label", name + ":" + value);
    }

    public EventFilter since(Instant instant) {
        return with("since", instant);
    }

    /** Begins this long before now. */
    public EventFilter since(Duration beforeNow) {
        return with("since", beforeNow);
    }

    /** Begins behind an event, in place of {@code since}. */
    public EventFilter after(String eventId) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        changed.remove("since");
        changed.put("after", eventId);
        return copy(changed);
    }

    /** False ends the events at the present. */
    public EventFilter follow(boolean follow) {
        return with("follow", follow);
    }
}
