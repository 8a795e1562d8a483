import {
  BelfryError,
  ConnectionError,
  InvalidError,
  ProblemError,
  ProtocolError,
  refusal,
  TimeoutError,
} from "./errors.js";
import { decode, encode } from "./wire.js";

/** A logger such as `console`, pino or winston. It gets no keys, secrets or payloads. */
export interface Logger {
  debug(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
}

/** The settings of a client. */
export interface Options {
  /** Base URLs of one or more nodes of one cluster. Default: BELFRY_ADDR, with commas between several. */
  addresses?: string | string[];
  /** An API key or a token, or a function that returns it. Default: BELFRY_KEY, or the file BELFRY_KEY_FILE. */
  key?: string | (() => string | Promise<string>);
  /** Of the calls about tasks, schedules and queues. Default: BELFRY_NAMESPACE, or the key's own. */
  namespace?: string;
  /** Milliseconds for a call with all its repeats. Default 30,000. */
  timeout?: number;
  /** Milliseconds for one request. Default 5,000. */
  attemptTimeout?: number;
  /** Requests of one call. Default: as many as fit into the timeout. */
  maxAttempts?: number;
  /** Repeats that all calls together may make beyond a fifth of the calls. Default 500. */
  retryBudget?: number;
  fetch?: typeof fetch;
  logger?: Logger;
  /** Returns the W3C trace context of the running code, which deliveries carry on. */
  traceparent?: () => string | undefined;
}

/** The settings of one call. */
export interface CallOptions {
  signal?: AbortSignal;
  /** Milliseconds for the call with all its repeats. */
  timeout?: number;
  /** Default: a new key for each call. A stored one makes the call safe to repeat after a restart. */
  idempotencyKey?: string;
  /** Makes the call only if the task, or the schedule, still has this revision. */
  ifMatch?: string;
  /** Makes the call only if there is no such task or schedule, tombstones included. */
  ifNoneMatch?: "*";
}

/** A request in a form that can be sent any number of times. */
export interface Request extends CallOptions {
  method: string;
  path: string;
  body?: string;
  contentType?: string;
  accept?: string;
  /** Milliseconds of silence that the service may need beyond those of other calls. */
  wait?: number;
}

/** Reads an answer. It tells of each part that arrives, so that only silence ends a long answer. */
export type Reader<T> = (answer: Response, arrived: () => void) => Promise<T>;

/** An answer that is being read. */
export interface Open {
  answer: Response;
  arrived: () => void;
  close: () => void;
  /** Returns the client's error for one of the reading. */
  failure: (err: unknown) => unknown;
}

/** The name of a call in errors and logs. A query is left out, since it may hold labels. */
function nameOf(request: Request): string {
  return `${request.method} ${request.path.replace(/\?.*/, "")}`;
}

/** Sends requests to the nodes of a cluster. */
export class Transport {
  readonly root: string;
  readonly logger: Logger | undefined;
  readonly timeout: number;
  readonly attemptTimeout: number;
  #addresses: string[];
  #current = 0;
  #key: Options["key"];
  #fetch: typeof fetch;
  #maxAttempts: number;
  #budget: number;
  #fullBudget: number;
  #traceparent: Options["traceparent"];
  #keyPrefix = crypto.randomUUID();
  #keys = 0;

  constructor(options: Options) {
    const given = options.addresses ?? variable("BELFRY_ADDR") ?? "http://127.0.0.1:8400";
    this.#addresses = (Array.isArray(given) ? given : given.split(",")).map(baseOf);
    if (this.#addresses.length === 0) throw new TypeError("there is no address");
    this.#key = options.key ?? variable("BELFRY_KEY") ?? keyFile(variable("BELFRY_KEY_FILE"));
    const namespace = options.namespace ?? variable("BELFRY_NAMESPACE");
    this.root = namespace ? `/v1/namespaces/${segment(namespace, "namespace")}` : "/v1";
    this.timeout = options.timeout ?? 30_000;
    this.attemptTimeout = options.attemptTimeout ?? 5_000;
    this.#maxAttempts = options.maxAttempts ?? Infinity;
    this.#budget = this.#fullBudget = options.retryBudget ?? 500;
    this.#fetch = options.fetch ?? fetch.bind(globalThis);
    this.logger = options.logger;
    this.#traceparent = options.traceparent;
  }

  /** Returns the decoded answer of a call that carries `content` as JSON. */
  async json(
    method: string,
    path: string,
    content?: unknown,
    call?: CallOptions,
  ): Promise<{ status: number; content: unknown }> {
    const body = content === undefined ? undefined : encode(content);
    return this.send({ ...call, method, path, ...(body !== undefined && { body }) }, async (answer) => {
      const text = await answer.text();
      return { status: answer.status, content: text ? decode(text) : undefined };
    });
  }

  /** Sends a request until it has a final answer, and reads the answer with `read`. */
  async send<T>(request: Request, read: Reader<T>): Promise<T> {
    const name = nameOf(request);
    const deadline = performance.now() + (request.timeout ?? this.timeout) + (request.wait ?? 0);
    const changes = request.method !== "GET";
    const key = changes ? (request.idempotencyKey ?? this.#newKey()) : undefined;
    let committed: "no" | "unknown" = "no";
    for (let attempt = 1; ; attempt++) {
      const at = this.#current;
      const left = deadline - performance.now();
      let failure: BelfryError;
      try {
        const answer = await this.#attempt(
          request,
          Math.min(left, this.attemptTimeout + (request.wait ?? 0)),
          key,
          read,
        );
        this.#budget = Math.min(this.#budget + 0.2, this.#fullBudget);
        return answer;
      } catch (err) {
        if (request.signal?.aborted || !(err instanceof BelfryError)) throw err;
        failure = err;
      }
      if (changes && failure.committed === "unknown") committed = "unknown";
      if (!retryable(failure)) throw failure;
      if (at === this.#current && !(failure instanceof ProblemError && failure.status === 429)) this.#current++;
      const pause = this.#pause(attempt, failure);
      if (attempt >= this.#maxAttempts || this.#budget < 1) throw failure;
      if (performance.now() + pause >= deadline) {
        throw new TimeoutError(`${name}: no answer in time; the last failure: ${failure.message}`, committed, {
          cause: failure,
        });
      }
      this.#budget--;
      this.logger?.debug("belfry: repeating a call", { call: name, attempt, err: failure.message });
      await sleep(pause, request.signal);
    }
  }

  #newKey(): string {
    return `${this.#keyPrefix}-${(++this.#keys).toString(36)}`;
  }

  /** The next address is asked at once. Once all have failed, the service's Retry-After or a backoff counts. */
  #pause(attempt: number, failure: BelfryError): number {
    const asked = failure instanceof ProblemError ? failure.retryAfter : undefined;
    const limited = failure instanceof ProblemError && failure.status === 429;
    if (!limited && attempt < this.#addresses.length) return 0;
    const backoff = Math.min(20 * 2 ** Math.min(attempt - 1, 10), 1_000);
    return asked !== undefined && (limited || this.#addresses.length === 1)
      ? asked * 1_000
      : backoff * (0.5 + Math.random() / 2);
  }

  /** Makes one request, and reads its answer. */
  async #attempt<T>(request: Request, limit: number, key: string | undefined, read: Reader<T>): Promise<T> {
    const open = await this.open(request, limit, key);
    try {
      return await read(open.answer, open.arrived);
    } catch (err) {
      throw open.failure(err);
    } finally {
      open.close();
    }
  }

  /** Moves on to the next address. */
  moveOn(): void {
    this.#current++;
  }

  /** Makes one request at the present address. The caller reads the answer, and closes it. */
  async open(request: Request, limit: number, key?: string): Promise<Open> {
    const { signal } = request;
    signal?.throwIfAborted();
    const name = nameOf(request);
    const control = new AbortController();
    const abort = () => control.abort(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    const silence = () => control.abort(new ConnectionError(`${name}: no answer in time`, "unknown"));
    let timer = setTimeout(silence, limit);
    const arrived = () => {
      clearTimeout(timer);
      timer = setTimeout(silence, limit);
    };
    const close = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    const failure = (err: unknown) => {
      if (err instanceof BelfryError) return err;
      return signal?.aborted || control.signal.aborted ? (control.signal.reason as unknown) : failureOf(err, name);
    };
    try {
      const answer = await this.#fetch(this.#addresses[this.#current % this.#addresses.length]! + request.path, {
        method: request.method,
        headers: await this.#headers(request, key),
        body: request.body ?? null,
        redirect: "manual",
        signal: control.signal,
      });
      if (answer.type === "opaqueredirect" || (answer.status >= 300 && answer.status < 400)) {
        await answer.body?.cancel();
        const reason = "the answer is a redirect, and a key is never sent to another host: name that address itself";
        throw new ProtocolError(`${name}: ${reason}`, "no");
      }
      if (!answer.ok) throw await refusal(answer, name);
      return { answer, arrived, close, failure };
    } catch (err) {
      close();
      throw failure(err);
    }
  }

  async #headers(request: Request, key: string | undefined): Promise<Record<string, string>> {
    const headers: Record<string, string> = {};
    const credential = typeof this.#key === "function" ? await this.#key() : this.#key;
    if (credential) {
      if (!/^[\x21-\x7e]+$/.test(credential)) throw new TypeError("the key has a character that a header cannot carry");
      headers["authorization"] = `Bearer ${credential}`;
    }
    if (request.body !== undefined) headers["content-type"] = request.contentType ?? "application/json";
    if (request.accept !== undefined) headers["accept"] = request.accept;
    if (key !== undefined) headers["idempotency-key"] = key;
    if (request.ifMatch !== undefined) headers["if-match"] = `"${request.ifMatch}"`;
    if (request.ifNoneMatch !== undefined) headers["if-none-match"] = request.ifNoneMatch;
    const trace = this.#traceparent?.();
    if (trace) headers["traceparent"] = trace;
    return headers;
  }
}

/** A refused connection has carried nothing. */
function failureOf(err: unknown, name: string): BelfryError {
  const cause = (err as { cause?: { code?: string; message?: string } }).cause;
  const unsent = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"].includes(cause?.code ?? "");
  if (err instanceof SyntaxError) return new ProtocolError(`${name}: the answer is not JSON`, "unknown");
  return new ConnectionError(
    `${name}: ${cause?.code ?? cause?.message ?? "the connection broke"}`,
    unsent ? "no" : "unknown",
  );
}

function retryable(failure: BelfryError): boolean {
  if (failure instanceof ConnectionError) return true;
  if (!(failure instanceof ProblemError)) return false;
  if (failure.status === 429) return failure.retryAfter !== undefined || failure.type !== "quota-exceeded";
  return [502, 503, 504].includes(failure.status);
}

/** Returns the path's part of an id. A URL would swallow an empty one and dots, and lead to another call. */
export function segment(id: string, field: string): string {
  const half = /[\uD800-\uDFFF]/u.test(id); // half of a surrogate pair has no encoding
  if (half || id === "" || id === "." || id === "..") {
    throw new InvalidError({
      type: "urn:belfry:problem:invalid-field",
      status: 400,
      field,
      detail: `is ${JSON.stringify(id)}`,
      limit: "[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}",
    });
  }
  return encodeURIComponent(id);
}

function baseOf(address: string): string {
  const text = address.trim();
  let url: URL;
  try {
    url = new URL(text.includes("://") ? text : `http://${text}`);
  } catch {
    throw new TypeError("an address is not http://host:port"); // the text may hold a password
  }
  if (url.username || url.password) throw new TypeError("an address has a user or password: calls do not carry them");
  if (!/^https?:$/.test(url.protocol)) throw new TypeError(`the address ${text} is not http://host:port`);
  return url.origin + url.pathname.replace(/\/+$/, "");
}

interface Runtime {
  env?: Record<string, string | undefined>;
  getBuiltinModule?(name: string): { readFileSync(path: string, encoding: "utf8"): string } | undefined;
}
const runtime = (globalThis as { process?: Runtime }).process;

function variable(name: string): string | undefined {
  return runtime?.env?.[name] || undefined;
}

/** The file is read at each call, so that a rotated key comes into force. */
function keyFile(path: string | undefined): (() => string) | undefined {
  if (path === undefined) return undefined;
  const files = runtime?.getBuiltinModule?.("node:fs");
  if (files === undefined) throw new TypeError("BELFRY_KEY_FILE cannot be read here: give a key");
  return () => files.readFileSync(path, "utf8").trim();
}

/** Returns after some milliseconds, or throws the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
