package io.github.belfryhq.client;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** The rule of a schedule: cron expressions in a time zone, or an interval. */
public final class Repeat extends Fields<Repeat> {
    Repeat(Map<String, Object> fields) {
        super(fields, Repeat::new);
    }

    /** Returns a rule of cron expressions, such as {@code 0 9 * * MON-FRI}. */
    public static Repeat cron(String... expressions) {
        return new Repeat(Map.of("cron", List.of(expressions)));
    }

    public static Repeat every(Duration interval) {
        return new Repeat(Map.of("every", interval));
    }

    /** Sets the instant from which intervals count. */
    public Repeat anchor(Instant anchor) {
        return with("anchor", anchor);
    }

    /** Sets a name of the IANA database. */
    public Repeat timeZone(String timeZone) {
        return with("time_zone", timeZone);
    }

    public Repeat start(Instant start) {
        return with("start", start);
    }

    public Repeat end(Instant end) {
        return with("end", end);
    }

    /** Ends the rule after so many occurrences. */
    public Repeat count(int count) {
        return with("count", count);
    }

    public Repeat jitter(Duration jitter) {
        return with("jitter", jitter);
    }

    /** Leaves out dates or instants. */
    public Repeat except(String... dates) {
        return with("except", List.of(dates));
    }

    public Repeat calendar(String calendar) {
        return with("calendar", calendar);
    }
}
