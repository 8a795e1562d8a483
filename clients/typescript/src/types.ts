/** A span of time as Go writes it, with `d` for a day, or as ISO 8601: `500ms`, `1h30m`, `48h`, `7d`, `PT30M`. */
export type Duration = `${number}${Unit}` | `${number}${Unit}${number}${Unit}` | `P${string}`;
type Unit = "ms" | "s" | "m" | "h" | "d";

/** An instant in a request. The service rounds finer times up to whole milliseconds. */
export type Instant = Date | string;

export type TaskState = "scheduled" | "ready" | "firing" | "retrying" | "delivered" | "dead" | "cancelled";

/**
 * The final result of a cancel. `cancelled`: no attempt was begun, and none will be. `stopped`: an attempt was begun
 * and may have been delivered; no other will be. `already_fired`: the task was delivered or dead before.
 */
export type Outcome = "cancelled" | "stopped" | "already_fired";

/** The receiver of a task. */
export interface Target {
  url: string;
  method?: "POST" | "PUT" | "PATCH" | "DELETE" | "GET";
  auth?: Auth;
  headers?: Record<string, string>;
  /** Of one attempt. */
  timeout?: Duration;
}

/** Proves to the receiver of a webhook who sends it: by a token that the cluster signs, a certificate, or both. */
export interface Auth {
  jwt?: { audience: string; claims?: Record<string, unknown>; algorithm?: "EdDSA" | "RS256" };
  /** Name of a certificate of the nodes. */
  clientCertificate?: string;
}

/** The number and the pauses of the attempts. `delays` stand in place of a backoff. */
export interface Retry {
  maxAttempts?: number;
  minBackoff?: Duration;
  maxBackoff?: Duration;
  delays?: Duration[];
}

/** The hours in which attempts may begin. */
export interface Window {
  timeZone?: string;
  daily: string[];
  days?: string;
  calendar?: string;
}

/** The instant at which a task is due, or the delay from the receipt of the call. A past instant is due at once. */
export type When = { fireAt: Instant; delay?: never } | { delay: Duration; fireAt?: never };

/** Any JSON, or any bytes in base64. */
export type Payload<P> = { payload?: P; payloadBase64?: never } | { payloadBase64?: string; payload?: never };

/** The fields of a task without its id and time. Absent fields are the queue's. */
export type TaskContent<P = unknown> = Payload<P> & TaskSettings;

interface TaskSettings {
  queue?: string;
  contentType?: string;
  target?: Target;
  retry?: Retry;
  /** A task that has not begun this long after its time becomes a dead letter. */
  expiresAfter?: Duration;
  labels?: Record<string, string>;
  window?: Window;
  group?: string;
  /** 1 to 5, the first first. */
  priority?: number;
  /** The tasks that are made by the log entry that ends this one, as `{id}@delivered` and `{id}@dead`. */
  onDelivered?: FollowUp;
  onDead?: FollowUp;
}

/** A task that follows the end of another one. Without a payload, it gets a `TaskOutcome`. */
export type FollowUp = TaskContent & {
  /** From the end of the other task. */
  delay?: Duration;
  /** The outcome has the first 16 KiB of the receiver's answer. */
  keepAnswer?: boolean;
};

/** The payload of a follow-up that was given none, with the names of the API. */
export interface TaskOutcome {
  id: string;
  queue: string;
  occurrence?: number;
  outcome: "delivered" | "dead";
  attempts: number;
  status?: number;
  error?: string;
  answer_base64?: string;
  due: string;
  done_at: string;
}

/** A task to schedule. Without an id, the service makes one. */
export type NewTask<P = unknown> = When & TaskContent<P> & { id?: string; jitter?: Duration };

/** A task in answers. Instants are RFC 3339 texts. */
export interface Task<P = unknown> {
  id: string;
  queue: string;
  fireAt: string;
  payload?: P;
  payloadBase64?: string;
  contentType: string;
  target?: Target;
  retry?: Retry;
  expiresAfter?: string;
  labels?: Record<string, string>;
  window?: Window;
  group?: string;
  priority?: number;
  onDelivered?: FollowUp;
  onDead?: FollowUp;
  state: TaskState;
  attempts: number;
  nextAttemptAt: string | null;
  waitsFor?: "window";
  lastError: string;
  /** For `ifMatch`; changes with each change of the task. */
  revision: string;
  shard: number;
  createdAt: string;
  schedule?: string;
  occurrence?: number;
  scheduled?: string;
  webhookId?: string;
  leaseEndsAt?: string;
  history?: Attempt[];
  outcome?: Outcome;
  /** In the answer to a schedule call: the state of the replaced task. */
  previous?: TaskState;
}

/** An ended attempt. */
export interface Attempt {
  attempt: number;
  fence: bigint;
  startedAt: string | null;
  endedAt: string | null;
  node: string;
  error: string;
}

/** A task and whether the call made it. A replaced finished task counts as made. */
export type ScheduledTask<P = unknown> = Task<P> & { created: boolean };

/** The type of `T` with each field optional, and null for "back to the default". */
export type Patch<T> = { [K in keyof T]?: T[K] | null };

/** A merge patch (RFC 7396). The payload is replaced whole. */
export type TaskPatch<P = unknown> = Partial<When> &
  Patch<Payload<P>> & {
    contentType?: string | null;
    target?: Patch<Target> | null;
    retry?: Patch<Retry> | null;
    labels?: Record<string, string | null> | null;
    window?: Window | null;
    group?: string | null;
    priority?: number | null;
    /** Replaced whole, as `onDead` is. */
    onDelivered?: FollowUp | null;
    onDead?: FollowUp | null;
  };

/** Starts a delay again. `noLaterThan` is an instant, or a duration from the creation. */
export type Touch<P = unknown> = TouchPayload<P> & {
  delay?: Duration;
  noLaterThan?: Instant | Duration;
  /**
   * The task to make if there is none, or if it is done or firing. Without a payload, or with an empty array, it gets
   * that of the touch.
   */
  orSchedule?: NewTask<P>;
};

/** A new payload, or elements for the end of the array that is the payload. */
type TouchPayload<P> =
  | { payload?: P; payloadBase64?: never; append?: never }
  | { payloadBase64: string; payload?: never; append?: never }
  | { append: P extends readonly (infer E)[] ? readonly E[] : readonly unknown[]; payload?: never; payloadBase64?: never };

/** The choice of tasks of a list. */
export interface TaskFilter {
  state?: TaskState | TaskState[];
  queue?: string;
  prefix?: string;
  label?: Record<string, string>;
  dueAfter?: Instant;
  dueBefore?: Instant;
  order?: "id" | "due";
  /** Tasks in one page, 1 to 1000. */
  limit?: number;
  include?: "payload";
}

/** The choice of dead letters. */
export interface DeadFilter {
  id?: string | string[];
  prefix?: string;
  label?: Record<string, string>;
  dueAfter?: Instant;
  dueBefore?: Instant;
  limit?: number;
}

interface Line {
  id: string;
  key?: string;
  ifMatch?: string;
  ifNoneMatch?: "*";
}

/** One operation of a batch. */
export type BatchOp<P = unknown> =
  | (Line & { op: "schedule" } & NewTask<P>)
  | (Line & { op: "touch" } & Touch<P>)
  | (Line & { op: "patch" } & TaskPatch<P>)
  | (Line & { op: "cancel" | "fire" });

/** The result of one operation of a batch. */
export interface BatchResult {
  id: string;
  status: number;
  revision?: string;
  outcome?: Outcome;
  previous?: TaskState;
  problem?: Problem;
}

/** The policy of a queue. */
export interface QueuePolicy {
  target?: Target;
  retry?: Retry;
  maxInFlight?: number;
  maxPerSecond?: number;
  batchMax?: number;
  paused?: boolean;
  keepDone?: Duration;
  keepDead?: Duration;
  window?: Window;
  /** Of tasks without follow-ups of their own. */
  onDelivered?: FollowUp;
  onDead?: FollowUp;
  groupInFlight?: number;
  groupPerSecond?: number;
  fifo?: boolean;
  fair?: boolean;
  groupWeights?: Record<string, number>;
  /** At most two, the newest first: `whsec_` and base64. Answers have a digest, which keeps a secret when sent back. */
  signing?: { secrets: string[] };
}

export type QueuePatch = Patch<Omit<QueuePolicy, "target" | "retry" | "groupWeights">> & {
  target?: Patch<Target> | null;
  retry?: Patch<Retry> | null;
  groupWeights?: Record<string, number | null> | null;
};

export interface Queue extends QueuePolicy {
  queue: string;
  paused: boolean;
  windowOpen?: boolean;
  windowOpensAt?: string | null;
  counts?: QueueCounts;
  broken?: { receiver: string; path: string; since: string; lastError: string; waiting: number }[];
}

export interface QueueCounts {
  scheduled: number;
  ready: number;
  firing: number;
  leased: number;
  retrying: number;
  delivered: number;
  dead: number;
  cancelled: number;
  oldestOverdue: string | null;
  due1m: number;
  due1h: number;
  due1d: number;
}

interface RepeatOptions {
  start?: Instant;
  end?: Instant;
  count?: number;
  jitter?: Duration;
  except?: string[];
  calendar?: string;
}

/** A rule: cron expressions in a time zone, or an interval from an anchor. */
export type Repeat = RepeatOptions &
  (
    | { cron: string[]; timeZone?: string; every?: never; anchor?: never }
    | { every: Duration; anchor?: Instant; timeZone?: string; cron?: never }
  );

/** The settings of a schedule. The service's defaults stand for absent ones. */
export interface NewSchedule<P = unknown> {
  repeat: Repeat;
  /** What runs after an outage. */
  misfire?: "latest" | "all" | "skip";
  misfireWindow?: Duration;
  /** What happens while an earlier occurrence still runs. */
  overlap?: "skip" | "queue_one" | "queue_all" | "allow" | "cancel_previous";
  paused?: boolean;
  note?: string;
  task?: TaskContent<P>;
}

export type SchedulePatch<P = unknown> = Patch<Omit<NewSchedule<P>, "repeat" | "task">> & {
  repeat?: { [K in keyof Repeat | "cron" | "every" | "anchor"]?: unknown };
  task?: Omit<TaskPatch<P>, "fireAt" | "delay"> & { queue?: string | null; expiresAfter?: Duration | null };
};

export interface Schedule<P = unknown> {
  id: string;
  repeat: Repeat;
  misfire: "latest" | "all" | "skip";
  misfireWindow?: string;
  overlap: "skip" | "queue_one" | "queue_all" | "allow" | "cancel_previous";
  paused: boolean;
  note?: string;
  task: TaskContent<P>;
  /** Number of the last occurrence. */
  last: number;
  nextAt: string | null;
  running: number[];
  waiting: number[];
  started: number;
  passed: number;
  ended: boolean;
  problem?: string;
  revision: string;
  shard: number;
  createdAt: string;
  tzData: string;
}

export interface Occurrences {
  next: { number: number; due: string; scheduled: string; local: string; clockChange?: "gap" | "first" | "second" }[];
  last: {
    number: number;
    count?: number;
    scheduled: string;
    origin: "rule" | "call" | "backfill";
    state: "waiting" | "running" | "delivered" | "dead" | "cancelled" | "passed";
    why?: "overlap" | "missed" | "coalesced" | "call" | "replaced";
    beganAt?: string;
    late?: string;
    attempts?: number;
    error?: string;
    endedAt?: string;
  }[];
}

/** The instants of a rule. */
export interface Preview {
  occurrences: { at: string; local: string; clockChange?: "gap" | "first" | "second"; wall?: string }[];
  excluded: { at: string; local: string; except: string }[];
  ended: boolean;
  timeZone: string;
  tzData: string;
}

/** One call on every task, or on every schedule, that passes a filter. Schedules have no states and no due time. */
export type NewOperation = {
  filter?: {
    queue?: string;
    prefix?: string;
    label?: string | string[];
    state?: TaskState | TaskState[];
    dueAfter?: Instant;
    dueBefore?: Instant;
  };
  /** Needed without a condition, and refused beside one. */
  all?: boolean;
  perSecond?: number;
} & (
  | { op: "move"; by: string; to?: never }
  | { op: "move"; to: Instant; by?: never }
  | {
      op: "patch";
      patch: { target?: Patch<Omit<Target, "headers">>; retry?: Patch<Retry>; labels?: Record<string, string | null> };
    }
  | { op: "cancel" | "fire" | "replay" | "purge" }
  | { of: "schedules"; op: "pause" | "resume"; note?: string }
  | { of: "schedules"; op: "delete" }
  | {
      of: "schedules";
      op: "patch";
      patch: Omit<SchedulePatch, "task"> & {
        task?: { target?: Patch<Omit<Target, "headers">>; retry?: Patch<Retry>; labels?: Record<string, string | null> };
      };
    }
);

export interface Operation {
  id: string;
  kind: string;
  state: "running" | "done" | "stopped";
  beganAt: string;
  endedAt: string | null;
  total: number;
  done: number;
  percent: number;
  detail?: string;
  cause?: string;
  matched?: number;
  outcomes?: Record<string, number>;
}

export type EventType =
  "scheduled" | "moved" | "fired" | "delivered" | "failed" | "dead" | "cancelled" | "expired" | "skipped";

/** One thing that happened to a task. A `gap` stands for events that are no longer kept. */
export interface TaskEvent {
  id?: string;
  type: EventType | "gap";
  at: string;
  task: string;
  queue: string;
  labels?: Record<string, string>;
  due: string | null;
  lateness?: string;
  attempt?: number;
  webhookId?: string;
  schedule?: string;
  occurrence?: number;
  node?: string;
  answer?: string;
  shard: number;
}

/** The choice of events. */
export interface EventFilter {
  queue?: string;
  type?: EventType[];
  prefix?: string;
  label?: Record<string, string>;
  /** An instant, or the time before now. Absent: from now on. */
  since?: Instant | Duration;
  /** The id of an event; in place of `since`. */
  after?: string;
  /** False ends the sequence at the present. */
  follow?: boolean;
}

export interface TaskHistory {
  task: string;
  events: TaskEvent[];
  more: boolean;
  complete: boolean;
  completeSince: string | null;
  missing: string[];
}

/** A task leased to a consumer until `leaseEndsAt`. */
export interface LeasedTask<P = unknown> extends Omit<Task<P>, "previous"> {
  webhookId: string;
  leaseEndsAt: string;
  receipt: string;
  /** 1, 2, … */
  attempt: number;
  /** Rises with every grant of the task. A store that keeps the highest one shuts out stale holders. */
  fence: bigint;
}

export interface Settlement {
  ack?: string[];
  nack?: { receipt: string; delay?: Duration; reason?: string }[];
  extend?: { receipt: string; lease: Duration }[];
  release?: string[];
}

export interface SettleResult {
  receipt: string;
  id: string;
  status: number;
  outcome?: "replaced";
  problem?: Problem;
}

/** The types of problems, without `urn:belfry:problem:`. */
export type ProblemType =
  | "malformed-json"
  | "invalid-field"
  | "no-delay"
  | "unauthenticated"
  | "foreign-origin"
  | "forbidden"
  | "unknown-route"
  | "task-not-found"
  | "schedule-not-found"
  | "queue-not-found"
  | "key-not-found"
  | "namespace-not-found"
  | "token-not-found"
  | "lease-not-found"
  | "node-not-found"
  | "operation-not-found"
  | "impossible"
  | "queue-not-empty"
  | "calendar-not-found"
  | "calendar-in-use"
  | "queues-full"
  | "lease-ended"
  | "method-not-allowed"
  | "body-timeout"
  | "wrong-state"
  | "key-forgotten"
  | "events-gone"
  | "precondition-failed"
  | "too-large"
  | "unsupported-media-type"
  | "key-reused"
  | "too-many-attempts"
  | "overloaded"
  | "memory-full"
  | "quota-exceeded"
  | "internal"
  | "not-committed"
  | "not-ready"
  | "no-room"
  | "outcome-unknown";

/** A refusal of RFC 9457. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail?: string;
  field?: string;
  limit?: string;
  quota?: string;
  used?: string;
  retryAfter?: number;
  committed?: "no" | "unknown";
  state?: TaskState;
  attempts?: number;
  task?: Task;
  schedule?: Schedule;
  counts?: QueueCounts;
  count?: number;
}
