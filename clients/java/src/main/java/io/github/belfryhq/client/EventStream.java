package io.github.belfryhq.client;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * Events as they happen, for one thread. The end of the sequence comes only without {@code follow}. A broken stream resumes
 * behind the last event, at the next address.
 */
public final class EventStream implements Iterable<TaskEvent>, Iterator<TaskEvent>, AutoCloseable {
    private static final Duration HEARTBEAT = Duration.ofSeconds(15); // the time between two heartbeats of the service
    private static final long MIN_PAUSE = 200; // milliseconds
    private static final long MAX_PAUSE = 5_000;

    private final Transport transport;
    private EventFilter filter;
    private Lines open; // null between two answers
    private long pause = MIN_PAUSE;
    private TaskEvent next;
    private boolean ended;

    EventStream(Transport transport, EventFilter filter) {
        this.transport = transport;
        this.filter = filter;
    }

    @Override
    public Iterator<TaskEvent> iterator() {
        return this;
    }

    /** Waits for an event, and returns false at the end. */
    @Override
    public boolean hasNext() {
        while (next == null && !ended) {
            try {
                read();
            } catch (BelfryException err) {
                drop();
                if (err.lasting()) {
                    throw err;
                }
                transport.moveOn();
                transport.log(Level.DEBUG, "resuming events", err);
                transport.sleep(pause, "GET /v1/events");
                pause = Math.min(2 * pause, MAX_PAUSE);
            }
        }
        return next != null;
    }

    @Override
    public TaskEvent next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        TaskEvent event = next;
        next = null;
        return event;
    }

    /** Reads one line, and begins an answer before if none is open. */
    private void read() {
        Transport.Request request = new Transport.Request(
                "GET",
                transport.root + "/events" + Mapper.query(filter.fields),
                null,
                null,
                "application/x-ndjson",
                Duration.ZERO);
        long silence = transport.attemptTimeout.plus(HEARTBEAT).toNanos();
        if (open == null) {
            open = transport.open(request, silence, null);
        }
        String line = transport.next(open, request, silence);
        if (line == null) {
            drop();
            ended = Boolean.FALSE.equals(filter.fields.get("follow"));
            if (!ended) {
                throw new ConnectionException(request.name() + ": the stream ended", BelfryException.Committed.NO, null);
            }
            return;
        }
        Line read = transport.decode(request, () -> transport.mapper.bind(Line.class, Transport.members(line)));
        if (read.problem() != null) {
            throw ProblemException.of(read.problem(), request.name());
        }
        if (read.heartbeat() == null) {
            next = transport.decode(request, () -> transport.mapper.bind(TaskEvent.class, Transport.members(line)));
            pause = MIN_PAUSE;
            filter = next.id() == null ? filter : filter.after(next.id());
        }
    }

    /** The members of a line that is no event. */
    record Line(Object heartbeat, Problem problem) {}

    /** Ends the sequence. */
    @Override
    public void close() {
        ended = true;
        drop();
    }

    private void drop() {
        if (open != null) {
            open.close();
            open = null;
        }
    }
}
