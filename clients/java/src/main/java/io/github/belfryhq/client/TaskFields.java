package io.github.belfryhq.client;

import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;

/** The fields of a task but for its id and time. Absent fields are the queue's. */
public abstract class TaskFields<T extends TaskFields<T>> extends Fields<T> {
    TaskFields(Map<String, Object> fields, Function<Map<String, Object>, T> copy) {
        super(fields, copy);
    }

    /** Sets a payload that the client's codec turns into JSON. */
    public T payload(Object payload) {
        return withPayload("payload", new Mapper.Foreign(payload), "payload_base64");
    }

    /** Sets a payload of any bytes. */
    public T payloadBytes(byte[] bytes) {
        return withPayload("payload_base64", Base64.getEncoder().encodeToString(bytes), "payload");
    }

    private T withPayload(String name, Object value, String other) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        changed.remove(other);
        changed.put(name, value);
        return copy(changed);
    }

    public T contentType(String contentType) {
        return with("content_type", contentType);
    }

    public T target(Target target) {
        return with("target", target);
    }

    /** Sets the URL of a receiver of POST requests. */
    public T target(String url) {
        return target(Target.of(url));
    }

    public T retry(Retry retry) {
        return with("retry", retry);
    }

    public T label(String name, String value) {
        return with("labels", name, value);
    }

    public T labels(Map<String, String> labels) {
        return with("labels", Map.copyOf(labels));
    }

    public T window(Window window) {
        return with("window", window);
    }

    /** Sets the group, whose tasks the queue may limit or keep in order. */
    public T group(String group) {
        return with("group", group);
    }

    /** Sets the priority, 1 to 5, the first first. */
    public T priority(int priority) {
        return with("priority", priority);
    }

    /** Sets the task that follows a delivery. */
    public T onDelivered(FollowUp next) {
        return with("on_delivered", next);
    }

    /** Sets the task that follows a dead letter. */
    public T onDead(FollowUp next) {
        return with("on_dead", next);
    }
}
