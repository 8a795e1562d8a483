// The driver of the conformance suite: see ../conformance/README.md. One JSON object a line on standard input is a
// call, and one a line on standard output its answer.
import { createInterface } from "node:readline";

import { Belfry, ConnectionError, ProblemError, ProtocolError, TimeoutError } from "./dist/index.js";
import { MemoryFences, Receiver, VerificationError } from "./dist/receiver.js";
import { decode, encode, milliseconds } from "./dist/wire.js";
import { LeaseLostError, Release, RetryIn, Worker } from "./dist/worker.js";

const clients = new Map();
const receivers = new Map();

/** Returns an object with the client's names. */
const ours = (value) => (value === undefined ? undefined : decode(JSON.stringify(value)));
/** Returns an object with the names of the API, and integers of 64 bits as texts. */
const theirs = (value) =>
  JSON.parse(encode(JSON.parse(JSON.stringify(value ?? null, (_, v) => (typeof v === "bigint" ? String(v) : v)))));

async function collect(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Returns the options of a call. */
function optionsOf({ key, if_match, if_none_match, timeout, cancel_after }) {
  const options = {};
  if (key !== undefined) options.idempotencyKey = key;
  if (if_match !== undefined) options.ifMatch = String(if_match);
  if (if_none_match !== undefined) options.ifNoneMatch = if_none_match;
  if (timeout !== undefined) options.timeout = milliseconds(timeout);
  if (cancel_after !== undefined) {
    const control = new AbortController();
    setTimeout(() => control.abort(), milliseconds(cancel_after));
    options.signal = control.signal;
  }
  return options;
}

const text = (c, { path }) => c.transport.send({ method: "GET", path }, (answer) => answer.text());

// The calls that have a method of their own. c is the client, w the step's `with`, b its body, q its query and o its
// options.
const calls = {
  putTask: (c, w, b, q, o) => c.schedule({ ...b, id: w.id }, o),
  postTask: (c, w, b, q, o) => c.schedule(b, o),
  getTask: (c, w, b, q, o) => c.get(w.id, { ...q, ...o }),
  patchTask: (c, w, b, q, o) => c.patch(w.id, b, o),
  cancelTask: async (c, w, b, q, o) => ({ outcome: await c.cancel(w.id, o) }),
  touchTask: (c, w, b, q, o) => c.touch(w.id, b, o),
  fireTask: (c, w, b, q, o) => c.fire(w.id, o),
  getTaskHistory: (c, w, b, q, o) => c.history(w.id, { ...q, ...o }),
  listTasks: async (c, w, b, q, o) => ({ tasks: await collect(c.list(q, o)) }),
  batch: async (c, w, b, q, o) => ({ results: await collect(c.batch(ours(w.lines), o)) }),
  lease: async (c, w, b, q, o) => ({ tasks: await c.lease(w.queue, b, o) }),
  settle: async (c, w, b, q, o) => ({ results: await c.settle(w.queue, b, o) }),
  preview: (c, w, b, q, o) => c.preview(b.repeat, b.next, o),
  putQueue: (c, w, b, q, o) => c.queues.put(w.queue, b, o),
  patchQueue: (c, w, b, q, o) => c.queues.patch(w.queue, b, o),
  getQueue: (c, w, b, q, o) => c.queues.get(w.queue, o),
  listQueues: async (c, w, b, q, o) => ({ queues: await collect(c.queues.list(q, o)) }),
  deleteQueue: (c, w, b, q, o) => c.queues.delete(w.queue, o),
  pauseQueue: (c, w, b, q, o) => c.queues.pause(w.queue, o),
  resumeQueue: (c, w, b, q, o) => c.queues.resume(w.queue, o),
  replayDead: async (c, w, b, q, o) => ({ count: await c.queues.replayDead(w.queue, q, o) }),
  dropDead: async (c, w, b, q, o) => ({ count: await c.queues.dropDead(w.queue, q, o) }),
  putSchedule: (c, w, b, q, o) => c.schedules.put(w.id, b, o),
  patchSchedule: (c, w, b, q, o) => c.schedules.patch(w.id, b, o),
  getSchedule: (c, w, b, q, o) => c.schedules.get(w.id, o),
  listSchedules: async (c, w, b, q, o) => ({ schedules: await collect(c.schedules.list(q, o)) }),
  deleteSchedule: (c, w, b, q, o) => c.schedules.delete(w.id, o),
  pauseSchedule: (c, w, b, q, o) => c.schedules.pause(w.id, b?.note, o),
  resumeSchedule: (c, w, b, q, o) => c.schedules.resume(w.id, b?.note, o),
  fireSchedule: (c, w, b, q, o) => c.schedules.fire(w.id, o),
  skipOccurrence: (c, w, b, q, o) => c.schedules.skip(w.id, o),
  backfillSchedule: (c, w, b, q, o) => c.schedules.backfill(w.id, b, o),
  listOccurrences: (c, w, b, q, o) => c.schedules.occurrences(w.id, q, o),
  beginBulkOperation: (c, w, b, q, o) => (b.dryRun ? c.operations.count(b, o) : c.operations.begin(b, o)),
  getOperation: (c, w, b, q, o) => c.operations.get(w.id, o),
  listOperations: async (c, w, b, q, o) => ({ operations: await c.operations.list(o) }),
  stopOperation: (c, w, b, q, o) => c.operations.stop(w.id, o),
  async streamEvents(c, w, b, q) {
    const events = [];
    if (w.count === 0) return { events };
    for await (const event of c.events(q)) if (event.type !== "gap" && events.push(event) === w.count) break;
    return { events };
  },
  backup: async (c, w) => ({ bytes: (await text(c, w)).length > 0 }),
  readAudit: async (c, w) => ({ records: (await text(c, w)).trim().split("\n").length > 0 }),
  readyz: async (c, w, b, q, o) => c.request("GET", "/readyz", {}, o),

  open(_, w, b, q, o, { client }) {
    const { addresses, key, namespace, timeout, attempt_timeout, max_attempts, retry_budget, traceparent } = w;
    clients.set(
      client,
      new Belfry({
        addresses,
        key: key ?? "",
        namespace: namespace ?? "",
        timeout: milliseconds(timeout ?? "20s"),
        attemptTimeout: milliseconds(attempt_timeout ?? "5s"),
        maxAttempts: max_attempts ?? Infinity,
        ...(retry_budget !== undefined && { retryBudget: retry_budget }),
        ...(traceparent && { traceparent: () => traceparent }),
      }),
    );
  },

  // Handles the tasks of a queue by a list of outcomes, the last of which repeats, until `count` handlers have ended.
  async consume(c, { queue, count, distinct, concurrency, lease, outcomes = ["ack"] }) {
    const handled = [];
    const ids = new Set();
    let begun = 0;
    const worker = new Worker(
      c,
      queue,
      async (task, context) => {
        const outcome = outcomes[Math.min(begun++, outcomes.length - 1)];
        const { attempt, fence, webhookId, signal } = context;
        const seen = { id: task.id, payload: task.payload, attempt, fence, webhookId, lost: false };
        if (outcome.hold) {
          await new Promise((resolve) => {
            const timer = setTimeout(resolve, milliseconds(outcome.hold));
            signal.addEventListener("abort", () => {
              clearTimeout(timer);
              seen.lost = signal.reason instanceof LeaseLostError;
              resolve();
            });
          });
        }
        ids.add(webhookId);
        if (handled.push(seen) === count || ids.size === distinct) worker.stop();
        if (outcome === "release") throw new Release();
        if (outcome.retry_in) throw new RetryIn(outcome.retry_in, outcome.reason);
        if (outcome.fail) throw new Error(outcome.fail);
      },
      { concurrency: concurrency ?? 8, wait: "5s", ...(lease && { lease }) },
    );
    await worker.run();
    return { handled, webhook_ids: ids.size };
  },

  receiver(_, { secrets, now }, b, q, o, { client }) {
    receivers.set(
      client,
      new Receiver({ secrets, fences: new MemoryFences(), ...(now && { now: () => now * 1_000 }) }),
    );
  },
  async verify(_, { headers, body }, b, q, o, { client }) {
    const { task, webhookId, attempt, fence, tasks } = await receivers.get(client).verify(headers, body);
    return { task, webhookId, attempt, fence, tasks: tasks.map(({ task, fence, stale }) => ({ task, fence, stale })) };
  },
};

const problemMembers =
  "type status title detail field limit quota used committed retryAfter state attempts task schedule count".split(" ");

function errorOf(err) {
  if (err instanceof VerificationError) return { type: err.reason };
  if (err instanceof ProblemError) {
    return theirs({ ...Object.fromEntries(problemMembers.map((name) => [name, err[name]])), text: err.message });
  }
  const type =
    err instanceof TimeoutError
      ? "timeout"
      : err instanceof ConnectionError
        ? "connection"
        : err instanceof ProtocolError
          ? "protocol"
          : err.name === "AbortError"
            ? "cancelled"
            : "other";
  return { type, committed: err.committed, text: err.message };
}

async function answer(request) {
  const { id, call, client, method, path, with: w = {} } = request;
  const own = calls[call];
  const body = ours(w.body);
  const query = ours(w.query) ?? {};
  if (query.label) query.label = w.query.label;
  const options = optionsOf(w);
  try {
    const c = clients.get(client);
    const result = own
      ? await own(c, { ...w, path }, body, query, options, request)
      : await c.request(method, path, { query, ...(body !== undefined && { body }) }, options);
    return { id, result: theirs(result) };
  } catch (err) {
    return { id, error: errorOf(err) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  void answer(JSON.parse(line)).then((out) => process.stdout.write(JSON.stringify(out) + "\n"));
}
