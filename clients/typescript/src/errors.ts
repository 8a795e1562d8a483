import type { Problem, ProblemType, Schedule, Task, TaskState } from "./types.js";
import { decode } from "./wire.js";

/** Whether a call that failed was carried out: `no`, or `unknown`. A refusal of a 4xx is always `no`. */
export type Committed = "no" | "unknown";

/** Any failure of a call. */
export class BelfryError extends Error {
  override name = "BelfryError";
  constructor(
    message: string,
    readonly committed: Committed,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** A node could not be reached, or its answer did not arrive. */
export class ConnectionError extends BelfryError {
  override name = "ConnectionError";
}

/** The time of a call was up. The cause is the last failure before that. */
export class TimeoutError extends BelfryError {
  override name = "TimeoutError";
}

/** An answer that is not the service's: a redirect, or a body that cannot be read. */
export class ProtocolError extends BelfryError {
  override name = "ProtocolError";
}

/** A refusal by the service: a problem of RFC 9457. The subclasses tell families of types apart. */
export class ProblemError extends BelfryError {
  override name = "ProblemError";
  readonly status: number;
  /** Stable; empty if the answer is not the service's. */
  readonly type: ProblemType | "";
  readonly title: string;
  readonly detail: string;
  /** The field, parameter or header that is wrong. */
  readonly field: string | undefined;
  readonly limit: string | undefined;
  readonly quota: string | undefined;
  readonly used: string | undefined;
  /** Seconds until a repeat makes sense. */
  readonly retryAfter: number | undefined;
  /** Of a task whose state does not allow the call. */
  readonly state: TaskState | undefined;
  readonly attempts: number | undefined;
  /** The task or schedule that is there, when `ifNoneMatch` fails. */
  readonly task: Task | undefined;
  readonly schedule: Schedule | undefined;
  /** Tasks that a call on many certainly changed before it broke off. */
  readonly count: number | undefined;

  constructor(problem: Partial<Problem> & { status: number }, call = "") {
    const detail = problem.detail ?? problem.title ?? "";
    const where = problem.field !== undefined && !detail.startsWith(problem.field) ? problem.field + " " : "";
    const limit = problem.limit === undefined ? "" : ` (limit ${problem.limit})`;
    super(
      `${call && call + ": "}${problem.status} ${where}${detail}${limit}`,
      problem.committed ?? (problem.status < 500 || problem.status === 507 ? "no" : "unknown"),
    );
    this.status = problem.status;
    this.type = (problem.type?.startsWith(prefix) ? problem.type.slice(prefix.length) : "") as ProblemType | "";
    this.title = problem.title ?? "";
    this.detail = problem.detail ?? "";
    this.field = problem.field;
    this.limit = problem.limit;
    this.quota = problem.quota;
    this.used = problem.used;
    this.retryAfter = problem.retryAfter;
    this.state = problem.state;
    this.attempts = problem.attempts;
    this.task = problem.task;
    this.schedule = problem.schedule;
    this.count = problem.count;
  }
}

const prefix = "urn:belfry:problem:";

/** A field, parameter or header is wrong: see `field` and `limit`. */
export class InvalidError extends ProblemError {
  override name = "InvalidError";
}
/** The call has no key, or one that is wrong, expired or revoked. */
export class UnauthenticatedError extends ProblemError {
  override name = "UnauthenticatedError";
}
/** The key does not allow the call. */
export class ForbiddenError extends ProblemError {
  override name = "ForbiddenError";
}
/** There is no such task, schedule, queue or other thing. */
export class NotFoundError extends ProblemError {
  override name = "NotFoundError";
}
/** The state of the task or another thing does not allow the call. */
export class ConflictError extends ProblemError {
  override name = "ConflictError";
}
/** `ifMatch` or `ifNoneMatch` did not hold. */
export class PreconditionError extends ProblemError {
  override name = "PreconditionError";
}
/** The idempotency key was used with another call. */
export class KeyReusedError extends ProblemError {
  override name = "KeyReusedError";
}
/** A quota of the namespace or the key is used up, or does not allow the call. */
export class QuotaError extends ProblemError {
  override name = "QuotaError";
}
/** Too many calls, or no room for more tasks: nothing happened. */
export class OverloadedError extends ProblemError {
  override name = "OverloadedError";
}
/** No answer in time from the leader, or a fault inside: see `committed`. */
export class UnavailableError extends ProblemError {
  override name = "UnavailableError";
}

const families: [typeof ProblemError, ProblemType[]][] = [
  [
    InvalidError,
    [
      "malformed-json",
      "invalid-field",
      "no-delay",
      "too-large",
      "unsupported-media-type",
      "unknown-route",
      "method-not-allowed",
      "body-timeout",
    ],
  ],
  [UnauthenticatedError, ["unauthenticated", "too-many-attempts"]],
  [ForbiddenError, ["forbidden", "foreign-origin"]],
  [
    NotFoundError,
    [
      "task-not-found",
      "schedule-not-found",
      "queue-not-found",
      "key-not-found",
      "namespace-not-found",
      "token-not-found",
      "lease-not-found",
      "node-not-found",
      "operation-not-found",
      "calendar-not-found",
      "events-gone",
    ],
  ],
  [
    ConflictError,
    ["wrong-state", "lease-ended", "queue-not-empty", "calendar-in-use", "queues-full", "key-forgotten", "impossible"],
  ],
  [PreconditionError, ["precondition-failed"]],
  [KeyReusedError, ["key-reused"]],
  [QuotaError, ["quota-exceeded"]],
  [OverloadedError, ["overloaded", "memory-full", "no-room"]],
  [UnavailableError, ["not-committed", "not-ready", "outcome-unknown", "internal"]],
];
const familyOf = new Map(families.flatMap(([family, types]) => types.map((type) => [prefix + type, family] as const)));

/** Returns the error of a problem, such as one in the result of a batch. */
export function errorOf(problem: Partial<Problem> & { status: number }, call = ""): ProblemError {
  return new (familyOf.get(problem.type ?? "") ?? ProblemError)(problem, call);
}

/** Returns the error of a refused request. Only a problem's own fields are shown: a proxy may echo the key. */
export async function refusal(answer: Response, call: string): Promise<ProblemError> {
  const problem: Partial<Problem> & { status: number } = { status: answer.status };
  const text = await answer.text();
  if (answer.headers.get("content-type")?.startsWith("application/problem+json")) {
    try {
      Object.assign(problem, decode(text), { status: answer.status });
    } catch {
      problem.detail = "the problem cannot be read";
    }
  } else {
    problem.detail = "the answer is not the service's";
  }
  const seconds = Number(answer.headers.get("retry-after") ?? undefined);
  if (seconds > 0) problem.retryAfter = seconds;
  return errorOf(problem, call);
}
