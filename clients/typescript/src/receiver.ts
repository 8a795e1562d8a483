/** The reason for a refusal. `malformed`: no delivery; `stale`: a newer attempt has reached the receiver before. */
export class VerificationError extends Error {
  override name = "VerificationError";
  constructor(
    readonly reason: "malformed" | "signature" | "timestamp" | "stale" | "too-large",
    message: string,
  ) {
    super(message);
  }
  /** The status that answers the request. Belfry repeats refused attempts, except stale ones, which are over. */
  get status(): number {
    return { malformed: 400, signature: 401, timestamp: 401, stale: 409, "too-large": 413 }[this.reason];
  }
}

/** Remembers the highest fence seen for each task. Receivers of several processes share one, say in their database. */
export interface Fences {
  /** Remembers a fence, and returns whether no higher one was seen before. An equal one is the same attempt again. */
  raise(task: string, fence: bigint): boolean | Promise<boolean>;
}

/** Fences in the memory of one process. It forgets the tasks that were seen longest ago. */
export class MemoryFences implements Fences {
  #fences = new Map<string, bigint>();
  constructor(readonly capacity = 100_000) {}

  raise(task: string, fence: bigint): boolean {
    const known = this.#fences.get(task);
    this.#fences.delete(task);
    this.#fences.set(task, known !== undefined && known > fence ? known : fence);
    if (this.#fences.size > this.capacity) this.#fences.delete(this.#fences.keys().next().value!);
    return known === undefined || fence >= known;
  }
}

export interface ReceiverOptions {
  /** The queue's, each `whsec_` and base64: two during a change of the secret. */
  secrets: string[];
  /** The largest difference of the sender's clock, in milliseconds. Default 5 minutes. */
  tolerance?: number;
  fences?: Fences;
  /** Bytes. Default 16 MiB. */
  maxBody?: number;
  /** The present, in milliseconds. Default Date.now. */
  now?: () => number;
}

/** One task of a delivery. */
export interface DeliveredTask<P = unknown> {
  /** The task's own id. */
  task: string;
  webhookId: string;
  /** `/v1/queues/` and the queue, behind `/v1/namespaces/` and the namespace if it is not the default one. */
  source: string;
  attempt: number;
  fence: bigint;
  due: string;
  payload: P;
  /** In a batch: the sender of this task has been superseded, and it must not be carried out. */
  stale: boolean;
}

/** A verified request. */
export interface Delivery<P = unknown> extends DeliveredTask<P> {
  sentAt: Date;
  body: Uint8Array;
  /** The tasks: one, or several if the queue sends batches. The delivery's own fields are those of the first. */
  tasks: DeliveredTask<P>[];
}

type Head = Headers | Record<string, string | string[] | undefined>;

/** Verifies deliveries: the signature by any of the secrets, the timestamp and the fence. */
export class Receiver {
  readonly maxBody: number;
  #keys: Promise<CryptoKey[]>;
  #tolerance: number;
  #fences: Fences;
  #now: () => number;

  constructor(options: ReceiverOptions) {
    if (options.secrets.length === 0) throw new TypeError("there is no secret");
    const secrets = options.secrets.map((secret, i) => {
      if (!secret.startsWith("whsec_") || secret.length === 6)
        throw new TypeError(`secrets[${i}] does not begin with whsec_`);
      try {
        return bytesOf(secret.slice(6));
      } catch {
        throw new TypeError(`secrets[${i}] is not base64 after whsec_`);
      }
    });
    this.#keys = Promise.all(
      secrets.map((secret) =>
        crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]),
      ),
    );
    this.#tolerance = options.tolerance ?? 300_000;
    this.#fences = options.fences ?? new MemoryFences();
    this.maxBody = options.maxBody ?? 16 << 20;
    this.#now = options.now ?? Date.now;
  }

  /** Returns the delivery of a request, by its header and its whole body as it came. Throws a VerificationError. */
  async verify<P = unknown>(headers: Head, body: Uint8Array | string): Promise<Delivery<P>> {
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    if (bytes.length > this.maxBody) throw new VerificationError("too-large", `the body is over ${this.maxBody} bytes`);
    const header = (name: string) => headerOf(headers, name);
    const id = header("webhook-id");
    const stamp = header("webhook-timestamp");
    if (id === "" || id.includes(".")) throw malformed("webhook-id is absent, or has a dot");
    if (!/^(0|[1-9]\d{0,14})$/.test(stamp)) throw malformed("webhook-timestamp is not a number of seconds");
    if (!(await this.#signed(`${id}.${stamp}.`, bytes, header("webhook-signature")))) {
      throw new VerificationError("signature", "no signature of the request is right");
    }
    const sentAt = new Date(Number(stamp) * 1_000);
    if (Math.abs(this.#now() - sentAt.getTime()) > this.#tolerance) {
      throw new VerificationError("timestamp", "the request was not sent just now");
    }
    const tasks = tasksOf<P>(header, bytes);
    for (const one of tasks) one.stale = !(await this.#fences.raise(one.task, one.fence));
    const first = tasks[0]!;
    if (tasks.length === 1 && first.stale) {
      throw new VerificationError("stale", `a newer attempt of task ${first.task} came before fence ${first.fence}`);
    }
    return { ...first, webhookId: id, sentAt, body: bytes, tasks };
  }

  async #signed(head: string, body: Uint8Array, signatures: string): Promise<boolean> {
    const prefix = new TextEncoder().encode(head);
    const text = new Uint8Array(prefix.length + body.length);
    text.set(prefix);
    text.set(body, prefix.length);
    for (const signature of signatures.split(" ")) {
      if (!/^v1,[A-Za-z0-9+/]{43}=$/.test(signature)) continue;
      for (const key of await this.#keys) {
        if (await crypto.subtle.verify("HMAC", key, bytesOf(signature.slice(3)), text)) return true;
      }
    }
    return false;
  }

  /** Returns a Fetch handler that passes verified deliveries on. A handler without an answer acknowledges. */
  handler<P = unknown>(
    handle: (delivery: Delivery<P>, request: Request) => Response | void | Promise<Response | void>,
  ): (request: Request) => Promise<Response> {
    return async (request) => {
      let delivery: Delivery<P>;
      try {
        delivery = await this.verify<P>(request.headers, await bodyOf(request.body, this.maxBody));
      } catch (err) {
        const { status, text } = refusalOf(err);
        return new Response(text, { status });
      }
      return (await handle(delivery, request)) ?? new Response(null, { status: 204 });
    };
  }
}

/** Returns the answer to a request that cannot be verified. Errors of Fences are not shown to the sender. */
export function refusalOf(err: unknown): { status: number; text: string } {
  return err instanceof VerificationError
    ? { status: err.status, text: err.message }
    : { status: 503, text: "the fence cannot be checked now" };
}

/** Reads a body up to a limit of bytes. */
export async function bodyOf(
  chunks: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | null,
  limit: number,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of (chunks ?? []) as AsyncIterable<Uint8Array>) {
    size += part.length;
    if (size > limit) throw new VerificationError("too-large", `the body is over ${limit} bytes`);
    parts.push(part);
  }
  const body = new Uint8Array(size);
  for (let at = 0, i = 0; i < parts.length; at += parts[i++]!.length) body.set(parts[i]!, at);
  return body;
}

const malformed = (text: string) => new VerificationError("malformed", text);

function headerOf(headers: Head, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  const value = headers[name];
  return Array.isArray(value) ? value.join(" ") : (value ?? "");
}

function tasksOf<P>(header: (name: string) => string, body: Uint8Array): DeliveredTask<P>[] {
  const text = new TextDecoder().decode(body);
  const kind = header("content-type").split(";")[0]!.trim();
  if (kind !== "application/cloudevents-batch+json") {
    const json = kind === "application/json" || kind.endsWith("+json");
    return [
      taskOf<P>(
        header("ce-id"),
        subjectOf(header("ce-subject")),
        header("ce-source"),
        header("ce-time"),
        header("belfry-attempt"),
        header("belfry-fence"),
        (json ? parse(text) : body) as P,
      ),
    ];
  }
  const batch = parse(text) as Record<string, unknown>[];
  if (!Array.isArray(batch) || batch.length === 0) throw malformed("the batch is not an array of events");
  return batch.map((e) =>
    taskOf<P>(
      String(e["id"]),
      String(e["subject"]),
      String(e["source"]),
      String(e["time"]),
      String(e["belfryattempt"]),
      String(e["belfryfence"]),
      e["data"] as P,
    ),
  );
}

/** CloudEvents percent-encodes headers. */
function subjectOf(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed("ce-subject is not percent-encoded as it should be");
  }
}

function parse(text: string): unknown {
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    throw malformed("the body is not JSON");
  }
}

function taskOf<P>(
  webhookId: string,
  task: string,
  source: string,
  due: string,
  attempt: string,
  fence: string,
  payload: P,
): DeliveredTask<P> {
  if (!webhookId || !task) throw malformed("the delivery has no id, or no subject");
  if (!/^\d{1,20}$/.test(fence)) throw malformed("the fence is absent, or is not a number");
  if (!/^\d{1,9}$/.test(attempt)) throw malformed("the attempt is absent, or is not a number");
  if (Number.isNaN(Date.parse(due))) throw malformed("the due time is absent, or is not an instant");
  return { task, webhookId, source, attempt: Number(attempt), fence: BigInt(fence), due, payload, stale: false };
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}
