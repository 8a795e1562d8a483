import type { Belfry } from "./client.js";
import { BelfryError, ProblemError } from "./errors.js";
import { type Logger, sleep } from "./transport.js";
import type { Duration, LeasedTask, Settlement, SettleResult } from "./types.js";
import { milliseconds } from "./wire.js";

/** The surroundings of a handler. */
export interface TaskContext {
  /** Aborted with a LeaseLostError when the lease is lost, and with a StoppedError when the grace of a stop is over. */
  readonly signal: AbortSignal;
  /** 1, 2, … */
  readonly attempt: number;
  /** Rises with every grant of the task. */
  readonly fence: bigint;
  /** The same for all attempts of an occurrence. */
  readonly webhookId: string;
}

/** Handles one task. A return acknowledges it; an error fails the attempt. See also RetryIn and Release. */
export type Handler<P> = (task: LeasedTask<P>, context: TaskContext) => unknown;

/** Thrown by a handler: the attempt failed, and the next one comes after this delay in place of the backoff. */
export class RetryIn extends Error {
  override name = "RetryIn";
  constructor(
    readonly delay: Duration,
    reason = "",
  ) {
    super(reason);
  }
}

/** Thrown by a handler: the task goes back to its queue, and the attempt does not count. */
export class Release extends Error {
  override name = "Release";
}

/** Another consumer may have the task, or it was scheduled anew. */
export class LeaseLostError extends Error {
  override name = "LeaseLostError";
}

/** The consumer stops, and its grace is over. */
export class StoppedError extends Error {
  override name = "StoppedError";
}

export interface WorkerOptions {
  /** Handlers that run at once. Default 64. */
  concurrency?: number;
  /** Length of a lease, which is extended while the handler runs. Default 10s. */
  lease?: Duration;
  /** How long handlers may go on after a stop. Default 30s. */
  grace?: Duration;
  /** How long one lease call waits for a task. Default 20s. */
  wait?: Duration;
  logger?: Logger;
}

interface Running {
  receipt: string;
  control: AbortController;
  ends: number;
}

type Verb = keyof Settlement;
interface Settling {
  verb: Verb;
  item: unknown;
  done: (result: SettleResult) => void;
  failed: (err: unknown) => void;
}

const verbs: Verb[] = ["ack", "nack", "extend", "release"]; // the order of the results
const maxReceipts = 1_000;
const maxSettles = 4; // requests at once

/** Consumes a queue that is pulled: calls a handler for each task as it comes due. */
export class Worker<P = unknown> {
  #client: Belfry;
  #queue: string;
  #handler: Handler<P>;
  #options: Required<Omit<WorkerOptions, "logger">>;
  #logger: Logger | undefined;
  #leaseTime: number;
  #stopping = new AbortController();
  #running = new Set<Running>();
  #freed = () => {};
  #settles: Settling[] = [];
  #settling = 0;

  constructor(client: Belfry, queue: string, handler: Handler<P>, options: WorkerOptions = {}) {
    const { logger, ...rest } = options;
    this.#client = client;
    this.#queue = queue;
    this.#handler = handler;
    this.#options = { concurrency: 64, lease: "10s", grace: "30s", wait: "20s", ...rest };
    this.#logger = logger ?? client.transport.logger;
    this.#leaseTime = milliseconds(this.#options.lease);
    if (!(this.#options.concurrency >= 1)) throw new RangeError("concurrency is less than 1");
  }

  /** Takes no more tasks. The run ends once the handlers have ended and their outcomes are settled. */
  stop(): void {
    this.#stopping.abort(new StoppedError("the consumer stops"));
  }

  /**
   * Runs until a stop or the end of the signal. Waits out failures of nodes. Throws if the service refuses the queue or
   * the options, and if handlers still run when the grace is over.
   */
  async run(signal?: AbortSignal): Promise<void> {
    const stop = () => this.stop();
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    const extending = setInterval(() => this.#extend(), this.#leaseTime / 4);
    try {
      await this.#take();
    } finally {
      await this.#drain().finally(() => {
        clearInterval(extending);
        signal?.removeEventListener("abort", stop);
      });
    }
  }

  async #take(): Promise<void> {
    const { signal } = this.#stopping;
    const { lease, wait, concurrency } = this.#options;
    const stop = () => this.#freed();
    signal.addEventListener("abort", stop);
    for (let pause = 20; !signal.aborted;) {
      const free = Math.min(concurrency - this.#running.size, maxReceipts);
      if (free <= 0) {
        await new Promise<void>((resolve) => {
          this.#freed = resolve;
        });
        continue;
      }
      try {
        for (const task of await this.#client.lease<P>(this.#queue, { max: free, wait, lease }, { signal }))
          this.#begin(task);
        pause = 20;
      } catch (err) {
        if (this.#stopping.signal.aborted) break;
        const lasting = err instanceof ProblemError && err.status < 500 && err.status !== 429;
        if (lasting || !(err instanceof BelfryError)) throw err;
        this.#logger?.warn("belfry: leasing failed", { queue: this.#queue, err: err.message });
        await sleep(pause, signal).catch(() => undefined); // the loop ends with the signal
        pause = Math.min(2 * pause, 5_000);
      }
    }
    signal.removeEventListener("abort", stop);
  }

  #begin(task: LeasedTask<P>): void {
    const running = {
      receipt: task.receipt,
      control: new AbortController(),
      ends: performance.now() + this.#leaseTime,
    };
    this.#running.add(running);
    void this.#handle(task, running).finally(() => {
      this.#running.delete(running);
      this.#freed();
    });
  }

  async #handle(task: LeasedTask<P>, running: Running): Promise<void> {
    const { receipt, attempt, fence, webhookId } = task;
    let outcome: [Verb, unknown] = ["ack", receipt];
    try {
      await this.#handler(task, { signal: running.control.signal, attempt, fence, webhookId });
    } catch (err) {
      if (err instanceof Release || err instanceof StoppedError) outcome = ["release", receipt];
      else if (err instanceof LeaseLostError) return;
      else {
        const reason = cut(err instanceof Error ? err.message : String(err));
        outcome = ["nack", { receipt, ...(reason && { reason }), ...(err instanceof RetryIn && { delay: err.delay }) }];
      }
    }
    try {
      const result = await this.#settle(...outcome);
      if (result.status !== 200)
        this.#logger?.warn("belfry: the lease had ended", { task: task.id, status: result.status });
    } catch (err) {
      this.#logger?.warn("belfry: an outcome was not settled", { task: task.id, err: (err as Error).message });
    }
  }

  /** Extends the leases of which half is over. A lease that cannot be extended is lost when it ends by this clock. */
  #extend(): void {
    const now = performance.now();
    for (const running of this.#running) {
      if (running.control.signal.aborted || running.ends - now > this.#leaseTime / 2) continue;
      if (running.ends <= now) {
        running.control.abort(new LeaseLostError("the lease has ended"));
        continue;
      }
      this.#settle("extend", { receipt: running.receipt, lease: this.#options.lease }).then(
        (result) => {
          if (result.status === 200 && result.outcome === undefined) running.ends = now + this.#leaseTime;
          else if (this.#running.has(running)) running.control.abort(new LeaseLostError("the lease is lost"));
        },
        (err: unknown) => this.#logger?.warn("belfry: a lease was not extended", { err: String(err) }),
      );
    }
  }

  #settle(verb: Verb, item: unknown): Promise<SettleResult> {
    return new Promise((done, failed) => {
      this.#settles.push({ verb, item, done, failed });
      if (this.#settles.length === 1) queueMicrotask(() => this.#flush());
    });
  }

  /** Sends the outcomes that came during earlier requests. */
  #flush(): void {
    while (this.#settles.length > 0 && this.#settling < maxSettles) {
      const chunk = this.#settles.splice(0, maxReceipts);
      const settlement: Record<string, unknown[]> = {};
      const order = verbs.flatMap((verb) => chunk.filter((one) => one.verb === verb));
      for (const { verb, item } of order) (settlement[verb] ??= []).push(item);
      this.#settling++;
      this.#client
        .settle(this.#queue, settlement)
        .then(
          (results) =>
            order.forEach((one, i) => {
              const result = results[i];
              if (result) one.done(result);
              else one.failed(new BelfryError("a receipt has no result", "unknown"));
            }),
          (err: unknown) => order.forEach((one) => one.failed(err)),
        )
        .finally(() => {
          this.#settling--;
          this.#flush();
        });
    }
  }

  async #drain(): Promise<void> {
    const deadline = performance.now() + milliseconds(this.#options.grace);
    let over = false;
    while (this.#running.size > 0) {
      const left = deadline - performance.now();
      if (left <= 0 && over) throw new StoppedError(`${this.#running.size} handlers still run, and the grace is over`);
      if (left <= 0) {
        over = true;
        for (const running of this.#running) running.control.abort(new StoppedError("the grace of the stop is over"));
      }
      const woken = new AbortController();
      this.#freed = () => woken.abort();
      await sleep(Math.max(left, over ? 1_000 : 0), woken.signal).catch(() => undefined); // a handler ended
    }
  }
}

/** The service keeps 512 bytes of a reason. */
function cut(reason: string): string {
  let text = reason.slice(0, 512);
  while (new TextEncoder().encode(text).length > 512) text = text.slice(0, -1);
  return text;
}
