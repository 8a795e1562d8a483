package io.github.belfryhq.client;

import java.util.List;

/**
 * The hours in which attempts may begin: ranges such as {@code 09:00-20:00}, on days such as {@code MON-FRI}. Absent fields
 * are null.
 */
public record Window(String timeZone, List<String> daily, String days, String calendar) {
    public static Window of(String timeZone, String... daily) {
        return new Window(timeZone, List.of(daily), null, null);
    }

    public Window withDays(String days) {
        return new Window(timeZone, daily, days, calendar);
    }

    public Window withCalendar(String calendar) {
        return new Window(timeZone, daily, days, calendar);
    }
}
