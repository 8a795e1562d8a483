package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Starts the delay of a task again from now. */
public final class Touch extends Fields<Touch> {
    /** Uses the task's last delay. */
    public Touch() {
        this(Map.of());
    }

    Touch(Map<String, Object> fields) {
        super(fields, Touch::new);
    }

    /** Returns a touch with a delay. */
    public static Touch in(Duration delay) {
        return new Touch(Map.of("delay", delay));
    }

    /** Bounds all touches together by an instant. */
    public Touch noLaterThan(Instant instant) {
        return with("no_later_than", instant);
    }

    /** Bounds all touches together by a time from the creation of the task. */
    public Touch noLaterThan(Duration sinceCreation) {
        return with("no_later_than", sinceCreation);
    }

    /** Replaces the payload. */
    public Touch payload(Object payload) {
        return content("payload", new Mapper.Foreign(payload));
    }

    /** Replaces the payload by bytes. */
    public Touch payloadBytes(byte[] bytes) {
        return content("payload_base64", Base64.getEncoder().encodeToString(bytes));
    }

    /** Adds elements to the end of the array that is the payload. */
    public Touch append(Object... elements) {
        return content("append", Arrays.stream(elements).map(Mapper.Foreign::new).toList());
    }

    private Touch content(String name, Object value) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        changed.keySet().removeAll(List.of("payload", "payload_base64", "append"));
        changed.put(name, value);
        return copy(changed);
    }

    /**
     * Sets the task to make if there is none, or if it is done or firing. Without a payload, or with an empty array, it
     * gets that of the touch.
     */
    public Touch orSchedule(NewTask task) {
        return with("or_schedule", task);
    }
}
