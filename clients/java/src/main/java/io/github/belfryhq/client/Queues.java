package io.github.belfryhq.client;

import java.util.Map;

/** The policies and dead letters of queues. */
public final class Queues {
    private final Transport transport;

    Queues(Transport transport) {
        this.transport = transport;
    }

    /** Replaces the whole policy. An absent field is the default. */
    public Queue put(String queue, QueuePolicy policy, CallOption... options) {
        return transport.call(Queue.class, "PUT", path(queue), policy, options);
    }

    public Queue patch(String queue, QueuePatch patch, CallOption... options) {
        return transport.call(Queue.class, "PATCH", path(queue), patch, options);
    }

    public Queue get(String queue, CallOption... options) {
        return transport.call(Queue.class, "GET", path(queue), null, options);
    }

    /** Returns all queues whose names begin with a text. */
    public Items<Queue> list(String prefix, CallOption... options) {
        return transport.list(Queue.class, "queues", prefix.isEmpty() ? Map.of() : Map.of("prefix", prefix), options);
    }

    /** Deletes the policy of a queue without tasks. */
    public void delete(String queue, CallOption... options) {
        transport.json("DELETE", path(queue), null, options);
    }

    public Queue pause(String queue, CallOption... options) {
        return transport.call(Queue.class, "POST", path(queue) + "/pause", null, options);
    }

    public Queue resume(String queue, CallOption... options) {
        return transport.call(Queue.class, "POST", path(queue) + "/resume", null, options);
    }

    /** Schedules dead letters again, and returns their number. The filter has ids, prefix, label, due times and limit. */
    public long replayDead(String queue, TaskFilter filter, CallOption... options) {
        String path = path(queue) + "/dead/replay" + Mapper.query(filter.fields);
        return transport.json("POST", path, Map.of(), options).get("count").asLong();
    }

    /** Removes dead letters, and returns their number. */
    public long dropDead(String queue, TaskFilter filter, CallOption... options) {
        String path = path(queue) + "/dead" + Mapper.query(filter.fields);
        return transport.json("DELETE", path, null, options).get("count").asLong();
    }

    String path(String queue) {
        return transport.root + "/queues/" + Transport.segment(queue, "queue");
    }
}
