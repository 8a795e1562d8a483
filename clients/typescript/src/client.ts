import { ConnectionError, errorOf, type ProblemError, TimeoutError } from "./errors.js";
import { events } from "./events.js";
import { type CallOptions, type Options, segment, sleep, Transport } from "./transport.js";
import type {
  BatchOp,
  BatchResult,
  DeadFilter,
  Duration,
  EventFilter,
  Instant,
  LeasedTask,
  NewOperation,
  NewSchedule,
  NewTask,
  Occurrences,
  Operation,
  Outcome,
  Preview,
  Queue,
  QueuePatch,
  QueuePolicy,
  Repeat,
  Schedule,
  ScheduledTask,
  SchedulePatch,
  Settlement,
  SettleResult,
  Task,
  TaskEvent,
  TaskFilter,
  TaskHistory,
  TaskPatch,
  Touch,
} from "./types.js";
import { decode, encode, linesOf, milliseconds, queryOf } from "./wire.js";

type Query = Record<string, unknown>;

/**
 * A client of a Belfry cluster. One is meant for a whole program. Each changing call carries an idempotency key, so
 * that its repeats at other addresses have no further effect.
 */
export class Belfry {
  readonly transport: Transport;
  readonly queues: Queues;
  readonly schedules: Schedules;
  readonly operations: Operations;

  constructor(options: Options = {}) {
    this.transport = new Transport(options);
    this.queues = new Queues(this.transport);
    this.schedules = new Schedules(this.transport);
    this.operations = new Operations(this.transport);
  }

  /** Stores a task, or atomically replaces the one with its id, in any state. `ifNoneMatch: "*"` schedules once. */
  async schedule<P = unknown>(task: NewTask<P>, call?: CallOptions): Promise<ScheduledTask<P>> {
    const { id, ...content } = task;
    const answer =
      id === undefined
        ? await this.transport.json("POST", `${this.transport.root}/tasks`, content, call)
        : await this.transport.json("PUT", this.#task(id), content, call);
    return { ...(answer.content as Task<P>), created: answer.status === 201 };
  }

  /** Reads a task or its tombstone. `stale` asks the nearest replica. */
  async get<P = unknown>(id: string, call?: CallOptions & { consistency?: "stale" }): Promise<Task<P>> {
    const { consistency, ...rest } = call ?? {};
    return (await this.transport.json("GET", this.#task(id) + queryOf({ consistency }), undefined, rest))
      .content as Task<P>;
  }

  /** Yields all tasks that the filter selects. A task that is there throughout comes once. */
  list<P = unknown>(filter: TaskFilter = {}, call?: CallOptions): AsyncGenerator<Task<P>, void> {
    return pages<Task<P>>(this.transport, "tasks", filter, call);
  }

  /** Ends a task, and returns the final outcome. */
  async cancel(id: string, call?: CallOptions): Promise<Outcome> {
    return ((await this.transport.json("DELETE", this.#task(id), undefined, call)).content as { outcome: Outcome })
      .outcome;
  }

  /** Starts the delay of a task again from now. */
  async touch<P = unknown>(id: string, touch: Touch<P> = {}, call?: CallOptions): Promise<ScheduledTask<P>> {
    const answer = await this.transport.json("POST", `${this.#task(id)}/touch`, touch, call);
    return { ...(answer.content as Task<P>), created: answer.status === 201 };
  }

  /** Changes a waiting task. Null restores a default. */
  async patch<P = unknown>(id: string, patch: TaskPatch<P>, call?: CallOptions): Promise<Task<P>> {
    return (await this.transport.json("PATCH", this.#task(id), patch, call)).content as Task<P>;
  }

  /** Makes a task due now. One that waits for its next attempt is attempted now. */
  async fire<P = unknown>(id: string, call?: CallOptions): Promise<Task<P>> {
    return (await this.transport.json("POST", `${this.#task(id)}/fire`, {}, call)).content as Task<P>;
  }

  /** Returns the events of a task that are still kept, also of one that is gone. */
  async history(id: string, call?: CallOptions & { limit?: number }): Promise<TaskHistory> {
    const { limit, ...rest } = call ?? {};
    return (await this.transport.json("GET", `${this.#task(id)}/history${queryOf({ limit })}`, undefined, rest))
      .content as TaskHistory;
  }

  /** Yields events as they happen. After a failure it resumes behind the last one: none is lost or comes twice. */
  events(filter: EventFilter = {}, call?: { signal?: AbortSignal }): AsyncGenerator<TaskEvent, void> {
    return events(this.transport, filter, call?.signal);
  }

  /** Makes many calls, and yields their results in order. Operations that find no leader for now are repeated. */
  async *batch<P = unknown>(
    ops: Iterable<BatchOp<P>> | AsyncIterable<BatchOp<P>>,
    call?: CallOptions,
  ): AsyncGenerator<BatchResult & { error?: ProblemError }, void> {
    let chunk: string[] = [];
    let size = 0;
    for await (const op of ops) {
      const line = encode({ ...op, key: op.key ?? crypto.randomUUID() });
      if (chunk.length === maxLines || size + line.length > maxChunk) {
        yield* await this.#lines(chunk, call);
        [chunk, size] = [[], 0];
      }
      chunk.push(line);
      size += line.length;
    }
    if (chunk.length > 0) yield* await this.#lines(chunk, call);
  }

  /** Sends lines until each has a final result. */
  async #lines(lines: string[], call?: CallOptions): Promise<(BatchResult & { error?: ProblemError })[]> {
    const results = new Array<BatchResult | undefined>(lines.length);
    const deadline = performance.now() + (call?.timeout ?? this.transport.timeout);
    for (let pause = 20; ; pause = Math.min(2 * pause, 1_000)) {
      const open = lines.map((_, i) => i).filter((i) => passing(results[i]));
      if (open.length === 0) break;
      if (pause > 20) {
        if (performance.now() + pause >= deadline) break;
        await sleep(pause, call?.signal);
      }
      let next = 0;
      const body = open.map((i) => `${lines[i]!}\n`).join("");
      const path = `${this.transport.root}/batch`;
      const request = { ...call, method: "POST", path, body, contentType: "application/x-ndjson" };
      await this.transport.send(request, async (answer, arrived) => {
        next = 0;
        for await (const line of linesOf(answer.body!, arrived)) {
          const result = decode(line) as Partial<BatchResult> & { status: number };
          if (result.id === undefined) throw errorOf(result.problem ?? { status: result.status }, "POST " + path);
          results[open[next++]!] = result as BatchResult;
        }
        if (next < open.length) throw new ConnectionError(`POST ${path}: the answer broke off`, "unknown");
      });
    }
    return results.map((result) => {
      if (result === undefined) throw new TimeoutError("batch: no answer in time", "unknown");
      return result.problem === undefined
        ? result
        : { ...result, error: errorOf(result.problem, `batch line ${result.id}`) };
    });
  }

  /** Takes due tasks of a queue that is pulled. Returns once there is one, or none when the wait ends. */
  async lease<P = unknown>(
    queue: string,
    demand: { max?: number; wait?: Duration; lease?: Duration } = {},
    call?: CallOptions,
  ): Promise<LeasedTask<P>[]> {
    const wait = demand.wait === undefined ? 0 : milliseconds(demand.wait);
    const path = `${this.transport.root}/queues/${segment(queue, "queue")}/lease`;
    return this.transport.send(
      { ...call, method: "POST", path, body: encode(demand), wait },
      async (answer) => (decode(await answer.text()) as { tasks: LeasedTask<P>[] }).tasks,
    );
  }

  /** Ends or extends leases by their receipts. Each result has its own status. */
  async settle(queue: string, settlement: Settlement, call?: CallOptions): Promise<SettleResult[]> {
    const path = `${this.transport.root}/queues/${segment(queue, "queue")}/settle`;
    return ((await this.transport.json("POST", path, settlement, call)).content as { results: SettleResult[] }).results;
  }

  /** Returns the instants of a rule. Stores nothing. */
  async preview(repeat: Repeat, next?: number, call?: CallOptions): Promise<Preview> {
    return (await this.transport.json("POST", "/v1/preview", { repeat, next }, call)).content as Preview;
  }

  /** Makes any other call of the contract, such as those of operators. Names of fields are in camelCase here too. */
  async request<T = unknown>(
    method: string,
    path: string,
    content?: { query?: Query; body?: object },
    call?: CallOptions,
  ): Promise<T> {
    return (await this.transport.json(method, path + queryOf(content?.query ?? {}), content?.body, call)).content as T;
  }

  #task(id: string): string {
    return `${this.transport.root}/tasks/${segment(id, "id")}`;
  }
}

const maxLines = 1_000;
const maxChunk = 4 << 20; // characters

function passing(result: BatchResult | undefined): boolean {
  if (result === undefined) return true;
  const { status, problem } = result;
  return (
    [502, 503, 504].includes(status) ||
    (status === 429 && (problem?.retryAfter !== undefined || !problem?.type.endsWith("quota-exceeded")))
  );
}

/** Yields the items of all pages of a list. */
async function* pages<T>(
  transport: Transport,
  kind: string,
  filter: object,
  call?: CallOptions,
): AsyncGenerator<T, void> {
  let cursor: string | undefined;
  do {
    const path = `${transport.root}/${kind}${queryOf({ ...filter, cursor })}`;
    const page = (await transport.json("GET", path, undefined, call)).content as Record<string, unknown>;
    yield* page[kind] as T[];
    cursor = (page["nextCursor"] as string | null) ?? undefined;
  } while (cursor !== undefined);
}

/** The policies and dead letters of queues. */
export class Queues {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Replaces the whole policy. An absent field is the default. */
  put(queue: string, policy: QueuePolicy, call?: CallOptions): Promise<Queue> {
    return this.#call("PUT", queue, "", policy, call);
  }
  patch(queue: string, patch: QueuePatch, call?: CallOptions): Promise<Queue> {
    return this.#call("PATCH", queue, "", patch, call);
  }
  get(queue: string, call?: CallOptions): Promise<Queue> {
    return this.#call("GET", queue, "", undefined, call);
  }
  list(filter: { prefix?: string; limit?: number } = {}, call?: CallOptions): AsyncGenerator<Queue, void> {
    return pages<Queue>(this.#transport, "queues", filter, call);
  }
  /** Deletes the policy of a queue without tasks. */
  async delete(queue: string, call?: CallOptions): Promise<void> {
    await this.#call("DELETE", queue, "", undefined, call);
  }
  pause(queue: string, call?: CallOptions): Promise<Queue> {
    return this.#call("POST", queue, "/pause", undefined, call);
  }
  resume(queue: string, call?: CallOptions): Promise<Queue> {
    return this.#call("POST", queue, "/resume", undefined, call);
  }
  /** Schedules dead letters again, and returns their number. */
  async replayDead(queue: string, filter: DeadFilter = {}, call?: CallOptions): Promise<number> {
    return (await this.#call<{ count: number }>("POST", queue, "/dead/replay" + queryOf(filter), {}, call)).count;
  }
  /** Removes dead letters, and returns their number. */
  async dropDead(queue: string, filter: DeadFilter = {}, call?: CallOptions): Promise<number> {
    return (await this.#call<{ count: number }>("DELETE", queue, "/dead" + queryOf(filter), undefined, call)).count;
  }

  async #call<T>(method: string, queue: string, rest: string, content?: unknown, call?: CallOptions): Promise<T> {
    const path = `${this.#transport.root}/queues/${segment(queue, "queue")}${rest}`;
    return (await this.#transport.json(method, path, content, call)).content as T;
  }
}

/** Schedules run a task again and again. The occurrences are tasks with the ids `id@1`, `id@2`, … */
export class Schedules {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Replaces all settings. The numbers of the occurrences go on. */
  put<P = unknown>(id: string, schedule: NewSchedule<P>, call?: CallOptions): Promise<Schedule<P>> {
    return this.#call("PUT", id, "", schedule, call);
  }
  patch<P = unknown>(id: string, patch: SchedulePatch<P>, call?: CallOptions): Promise<Schedule<P>> {
    return this.#call("PATCH", id, "", patch, call);
  }
  get<P = unknown>(id: string, call?: CallOptions): Promise<Schedule<P>> {
    return this.#call("GET", id, "", undefined, call);
  }
  list<P = unknown>(
    filter: {
      queue?: string;
      prefix?: string;
      label?: Record<string, string>;
      limit?: number;
      include?: "payload";
    } = {},
    call?: CallOptions,
  ): AsyncGenerator<Schedule<P>, void> {
    return pages<Schedule<P>>(this.#transport, "schedules", filter, call);
  }
  async delete(id: string, call?: CallOptions): Promise<void> {
    await this.#call("DELETE", id, "", undefined, call);
  }
  pause(id: string, note?: string, call?: CallOptions): Promise<Schedule> {
    return this.#call("POST", id, "/pause", { note }, call);
  }
  resume(id: string, note?: string, call?: CallOptions): Promise<Schedule> {
    return this.#call("POST", id, "/resume", { note }, call);
  }
  /** Runs an occurrence now, beside the rule. */
  fire(id: string, call?: CallOptions): Promise<{ id: string; number: number; schedule: Schedule }> {
    return this.#call("POST", id, "/fire", {}, call);
  }
  /** Passes over the next occurrence. */
  skip(id: string, call?: CallOptions): Promise<Schedule> {
    return this.#call("POST", id, "/skip", {}, call);
  }
  /** Runs the rule's instants of the past. */
  backfill(id: string, span: { from: Instant; to: Instant }, call?: CallOptions): Promise<Schedule> {
    return this.#call("POST", id, "/backfill", span, call);
  }
  occurrences(id: string, count: { next?: number; last?: number } = {}, call?: CallOptions): Promise<Occurrences> {
    return this.#call("GET", id, "/occurrences" + queryOf(count), undefined, call);
  }

  async #call<T>(method: string, id: string, rest: string, content?: unknown, call?: CallOptions): Promise<T> {
    const path = `${this.#transport.root}/schedules/${segment(id, "id")}${rest}`;
    return (await this.#transport.json(method, path, content, call)).content as T;
  }
}

/** Operations make one call on every task that passes a filter. The cluster carries them on by itself. */
export class Operations {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async begin(operation: NewOperation, call?: CallOptions): Promise<Operation> {
    return (await this.#transport.json("POST", `${this.#transport.root}/operations`, operation, call))
      .content as Operation;
  }
  /** Counts the tasks that the operation would match now. */
  async count(operation: NewOperation, call?: CallOptions): Promise<{ matched: number; complete: boolean }> {
    const asked = { ...operation, dryRun: true };
    return (await this.#transport.json("POST", `${this.#transport.root}/operations`, asked, call)).content as {
      matched: number;
      complete: boolean;
    };
  }
  async get(id: string, call?: CallOptions): Promise<Operation> {
    return (await this.#transport.json("GET", `/v1/operations/${segment(id, "id")}`, undefined, call))
      .content as Operation;
  }
  async list(call?: CallOptions): Promise<Operation[]> {
    return (
      (await this.#transport.json("GET", "/v1/operations", undefined, call)).content as { operations: Operation[] }
    ).operations;
  }
  /** Stops an operation where it is. */
  async stop(id: string, call?: CallOptions): Promise<Operation> {
    return (await this.#transport.json("DELETE", `/v1/operations/${segment(id, "id")}`, undefined, call))
      .content as Operation;
  }
}
