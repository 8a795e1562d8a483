// The queues of the namespace that the session shows, and their order and sums.
import { get, inNamespace } from './api.js';
import { now } from './clock.js';

const most = 10_000;

// allQueues reads the queues page by page, up to ten thousand.
export async function allQueues(signal) {
  const queues = [];
  let cursor = '';
  do {
    const page = await get(inNamespace('/queues'), { limit: 1000, cursor }, { signal });
    queues.push(...page.queues);
    cursor = page.next_cursor;
  } while (cursor && queues.length < most);
  return queues;
}

// sums adds up the counts of queues.
export function sums(queues) {
  const sum = { waiting: 0, ready: 0, firing: 0, retrying: 0, dead: 0, due_1m: 0, due_1h: 0, due_1d: 0 };
  for (const { counts } of queues) {
    if (!counts) continue;
    sum.waiting += counts.scheduled + counts.retrying;
    for (const name of ['ready', 'firing', 'retrying', 'dead', 'due_1m', 'due_1h', 'due_1d']) sum[name] += counts[name];
  }
  return sum;
}

// holdOf names what holds the overdue tasks of a queue: its pause, its window, its failing receivers, its consumers,
// one of its limits, or its receiver. It is empty if Belfry itself is late.
export function holdOf(q) {
  const { ready, firing } = q.counts || {};
  if (!ready) return '';
  if (q.paused) return 'pause';
  if (q.window_open === false) return 'window';
  if (q.broken) return 'failing';
  if (!q.target) return 'consumer';
  if (q.max_in_flight && firing >= q.max_in_flight) return 'inFlight';
  if (q.max_per_second) return 'perSecond';
  if (q.fifo || q.group_in_flight || q.group_per_second) return 'group';
  return firing ? 'receiver' : '';
}

const wanted = ['pause', 'window', 'inFlight', 'perSecond', 'group']; // holds that somebody asked for

// isLate reports whether a queue has tasks that are overdue by more than a second, by no hold that somebody asked for.
export const isLate = (q) => Boolean(q.counts?.oldest_overdue) && !wanted.includes(holdOf(q))
  && now() - Date.parse(q.counts.oldest_overdue) > 1000;

// late lists the queues with overdue tasks: first those that Belfry is late with, then by the oldest.
export function late(queues) {
  const rank = (q) => (holdOf(q) ? 1 : 0);
  return queues.filter((q) => q.counts?.ready && q.counts.oldest_overdue).sort((a, b) => rank(a) - rank(b)
    || Date.parse(a.counts.oldest_overdue) - Date.parse(b.counts.oldest_overdue));
}

// trouble weighs a queue: overdue tasks and dead letters first, then retries, then pauses.
function trouble(q) {
  const c = q.counts || {};
  return (isLate(q) ? 1e9 : 0) + (c.dead ? 1e6 + Math.min(c.dead, 9e5) : 0) + (c.retrying ? 1e3 : 0)
    + (q.paused ? 100 : 0);
}

export function byTrouble(queues) {
  const waiting = (q) => (q.counts ? q.counts.scheduled + q.counts.ready : 0);
  return [...queues].sort((a, b) => trouble(b) - trouble(a) || waiting(b) - waiting(a)
    || a.queue.localeCompare(b.queue));
}
