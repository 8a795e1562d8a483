package io.github.belfryhq.client;

import java.time.Duration;
import java.util.Map;
import java.util.function.Function;

/** The settings of a schedule. Absent fields are the service's defaults. */
public abstract class ScheduleFields<T extends ScheduleFields<T>> extends Fields<T> {
    ScheduleFields(Map<String, Object> fields, Function<Map<String, Object>, T> copy) {
        super(fields, copy);
    }

    /** Sets which occurrences run after an outage. */
    public T misfire(Schedule.Misfire misfire) {
        return with("misfire", misfire);
    }

    /** Sets how far back an outage's occurrences run. */
    public T misfireWindow(Duration window) {
        return with("misfire_window", window);
    }

    /** Sets the fate of an occurrence that comes due while an earlier one still runs. */
    public T overlap(Schedule.Overlap overlap) {
        return with("overlap", overlap);
    }

    public T paused(boolean paused) {
        return with("paused", paused);
    }

    public T note(String note) {
        return with("note", note);
    }

    public T task(TaskContent task) {
        return with("task", task);
    }
}
