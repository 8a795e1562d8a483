package io.github.belfryhq.client;

import java.time.Instant;
import java.util.Map;

/** Schedules run a task again and again. The occurrences are tasks with the ids {@code id@1}, {@code id@2}, … */
public final class Schedules {
    private final Transport transport;

    Schedules(Transport transport) {
        this.transport = transport;
    }

    /** Replaces all settings. The numbers of the occurrences go on. */
    public Schedule put(String id, NewSchedule schedule, CallOption... options) {
        return transport.call(Schedule.class, "PUT", path(id), schedule, options);
    }

    public Schedule patch(String id, SchedulePatch patch, CallOption... options) {
        return transport.call(Schedule.class, "PATCH", path(id), patch, options);
    }

    public Schedule get(String id, CallOption... options) {
        return transport.call(Schedule.class, "GET", path(id), null, options);
    }

    /** Returns all schedules that the filter selects by queue, prefix and label. */
    public Items<Schedule> list(TaskFilter filter, CallOption... options) {
        return transport.list(Schedule.class, "schedules", filter.fields, options);
    }

    public void delete(String id, CallOption... options) {
        transport.json("DELETE", path(id), null, options);
    }

    /** Pauses a schedule. The note, which may be null, is kept. */
    public Schedule pause(String id, String note, CallOption... options) {
        return transport.call(Schedule.class, "POST", path(id) + "/pause", note(note), options);
    }

    /** Ends a pause. The note, which may be null, is kept. */
    public Schedule resume(String id, String note, CallOption... options) {
        return transport.call(Schedule.class, "POST", path(id) + "/resume", note(note), options);
    }

    private static Map<String, Object> note(String note) {
        return note == null ? Map.of() : Map.of("note", note);
    }

    /** Runs an occurrence now, beside the rule. */
    public Schedule.Fired fire(String id, CallOption... options) {
        return transport.call(Schedule.Fired.class, "POST", path(id) + "/fire", Map.of(), options);
    }

    /** Passes over the next occurrence. */
    public Schedule skip(String id, CallOption... options) {
        return transport.call(Schedule.class, "POST", path(id) + "/skip", Map.of(), options);
    }

    /** Runs the rule's instants of the past. */
    public Schedule backfill(String id, Instant from, Instant to, CallOption... options) {
        Map<String, Object> span = Map.of("from", from, "to", to);
        return transport.call(Schedule.class, "POST", path(id) + "/backfill", span, options);
    }

    /** Returns at most so many occurrences to come, and at most so many earlier ones. */
    public Schedule.Occurrences occurrences(String id, int next, int last, CallOption... options) {
        String path = path(id) + "/occurrences?next=" + next + "&last=" + last;
        return transport.call(Schedule.Occurrences.class, "GET", path, null, options);
    }

    /** Returns the next instants of a rule. Stores nothing. */
    public Preview preview(Repeat repeat, int next, CallOption... options) {
        Map<String, Object> rule = Map.of("repeat", repeat, "next", next);
        return transport.call(Preview.class, "POST", "/v1/preview", rule, options);
    }

    private String path(String id) {
        return transport.root + "/schedules/" + Transport.segment(id, "id");
    }
}
