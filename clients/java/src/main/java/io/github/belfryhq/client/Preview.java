package io.github.belfryhq.client;

import java.time.Instant;
import java.util.List;

/** The instants of a rule. {@code ended}: there are no others. {@code tzData} is the release of the time zones. */
public record Preview(
        List<Occurrence> occurrences, List<Excluded> excluded, boolean ended, String timeZone, String tzData) {

    /** An instant. {@code clockChange} is {@code gap}, {@code first}, {@code second} or null. */
    public record Occurrence(Instant at, String local, String clockChange, String wall) {}

    /** An instant that an exception or a calendar leaves out. */
    public record Excluded(Instant at, String local, String except) {}
}
