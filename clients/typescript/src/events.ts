import { BelfryError, errorOf, ProblemError } from "./errors.js";
import { sleep, type Transport } from "./transport.js";
import type { EventFilter, Problem, TaskEvent } from "./types.js";
import { decode, linesOf, queryOf } from "./wire.js";

const heartbeat = 15_000; // milliseconds between two heartbeats of the service

/** Yields the events of a filter. A broken stream resumes behind the last event, at the next address. */
export async function* events(
  transport: Transport,
  filter: EventFilter,
  signal?: AbortSignal,
): AsyncGenerator<TaskEvent, void> {
  let { after, since } = filter;
  let pause = 200;
  while (!signal?.aborted) {
    const before = after;
    try {
      for await (const event of stream(transport, { ...filter, type: filter.type?.join(","), after, since }, signal)) {
        if (event.id !== undefined) [after, since] = [event.id, undefined];
        yield event;
      }
      if (filter.follow === false) return;
    } catch (err) {
      if (signal?.aborted) return;
      const lasting = err instanceof ProblemError && err.status < 500 && err.status !== 429;
      if (lasting || !(err instanceof BelfryError)) throw err;
      transport.moveOn();
      transport.logger?.debug("belfry: resuming events", { after, err: err.message });
    }
    pause = after === before ? Math.min(2 * pause, 5_000) : 200;
    await sleep(pause, signal).catch(() => undefined); // the loop ends with the signal
  }
}

/** Yields the events of one answer. */
async function* stream(transport: Transport, filter: object, signal?: AbortSignal): AsyncGenerator<TaskEvent, void> {
  const query = queryOf(filter);
  const request = { method: "GET", path: `${transport.root}/events${query}`, accept: "application/x-ndjson" };
  const open = await transport.open({ ...request, ...(signal && { signal }) }, transport.attemptTimeout + heartbeat);
  try {
    for await (const line of linesOf(open.answer.body!, open.arrived)) {
      const event = decode(line) as TaskEvent & { heartbeat?: string; problem?: Problem };
      if (event.problem) throw errorOf(event.problem, "GET /v1/events");
      if (event.heartbeat === undefined) yield event;
    }
  } catch (err) {
    throw open.failure(err);
  } finally {
    open.close();
  }
}
