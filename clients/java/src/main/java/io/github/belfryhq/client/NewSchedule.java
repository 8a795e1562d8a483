package io.github.belfryhq.client;

import java.util.Map;

/** A schedule to store. */
public final class NewSchedule extends ScheduleFields<NewSchedule> {
    NewSchedule(Map<String, Object> fields) {
        super(fields, NewSchedule::new);
    }

    public static NewSchedule of(Repeat repeat, TaskContent task) {
        return new NewSchedule(Map.of("repeat", repeat, "task", task));
    }
}
