// The flow of one queue, from the events of its last minute: rates, lateness, and the tasks that ended last.
import { useRef } from 'preact/hooks';
import { inNamespace, lines } from './api.js';
import { now } from './clock.js';
import { milliseconds } from './format.js';
import { usePoll } from './live.js';

const longest = 60_000; // milliseconds of events that are read at once
const most = 3000; // events that are read at once

// useFlow returns a poll of {spanMs, fired, failed, dead, p99, latest} of a queue. A queue with more events than fit is
// read for a shorter time.
export function useFlow(queue) {
  const span = useRef(longest);
  return usePoll(async (signal) => {
    const { events, complete } = await read(queue, span.current, signal);
    const end = complete ? now() : Date.parse(events.at(-1).at);
    const spanMs = complete ? span.current : Math.max(1, end - Date.parse(events[0].at));
    span.current = complete ? Math.min(longest, span.current * 2) : Math.max(1000, spanMs / 2);
    return flowOf(events, spanMs);
  }, 4000, [queue]);
}

async function read(queue, spanMs, signal) {
  const stop = new AbortController();
  const events = [];
  const query = { queue, since: `${Math.round(spanMs)}ms`, follow: false };
  for await (const line of lines(inNamespace('/events'), query, AbortSignal.any([signal, stop.signal]))) {
    if (line.type && line.type !== 'gap') events.push(line);
    if (events.length >= most) {
      stop.abort();
      return { events, complete: false };
    }
  }
  return { events, complete: true };
}

// flowOf sums events up. The rates are those of a second; p99 is in milliseconds, null without a first attempt.
export function flowOf(events, spanMs) {
  const count = (type) => events.filter((e) => e.type === type).length;
  const late = events.filter((e) => e.type === 'fired' && e.lateness).map((e) => milliseconds(e.lateness));
  late.sort((a, b) => a - b);
  const perSecond = 1000 / spanMs;
  return {
    spanMs, fired: count('fired') * perSecond, failed: count('failed') * perSecond, failures: count('failed'),
    dead: count('dead') + count('expired'), p99: late.length ? late[Math.ceil(late.length * 0.99) - 1] : null,
    latest: events.filter((e) => ['delivered', 'failed', 'dead', 'expired', 'cancelled'].includes(e.type)).slice(-8)
      .reverse(),
  };
}
