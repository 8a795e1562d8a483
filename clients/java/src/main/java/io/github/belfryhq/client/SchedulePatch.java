package io.github.belfryhq.client;

import java.util.Map;

/** A merge patch (RFC 7396) of a schedule. */
public final class SchedulePatch extends ScheduleFields<SchedulePatch> {
    /** Changes nothing yet. */
    public SchedulePatch() {
        this(Map.of());
    }

    SchedulePatch(Map<String, Object> fields) {
        super(fields, SchedulePatch::new);
    }

    /**
     * Changes the fields of the rule that are set. {@code clear("repeat", "every")} clears the interval of a rule that
     * becomes one of cron expressions.
     */
    public SchedulePatch repeat(Repeat repeat) {
        return with("repeat", repeat);
    }

    /** Restores the default of a field, by the API's names: {@code clear("repeat", "every")}, {@code clear("note")}. */
    public SchedulePatch clear(String field, String... member) {
        return without(field, member);
    }
}
