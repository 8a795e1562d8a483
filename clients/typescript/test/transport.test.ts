import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Belfry, BelfryError, ConnectionError, InvalidError, ProtocolError, TimeoutError } from "../src/index.js";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

type Answer = Response | Error | ((url: string, init: RequestInit) => Response | Promise<Response>);

/** Returns a fetch that gives the answers by turns, and the requests that it got. */
function scripted(...answers: Answer[]) {
  const requests: { url: string; headers: Record<string, string> }[] = [];
  const fetch = async (url: string, init: RequestInit) => {
    requests.push({ url, headers: init.headers as Record<string, string> });
    const answer = answers.length > 1 ? answers.shift()! : answers[0]!;
    if (answer instanceof Error) throw answer;
    return typeof answer === "function" ? answer(url, init) : answer.clone();
  };
  return { requests, fetch: fetch as typeof globalThis.fetch };
}

const task = new Response('{"id":"t"}', { status: 201 });
const problem = (status: number, type: string, headers = {}) =>
  new Response(JSON.stringify({ type: `urn:belfry:problem:${type}`, status, title: "x" }), {
    status,
    headers: { "content-type": "application/problem+json", ...headers },
  });
const broken = () => Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET" } });
const closed = () => Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } });

/** Awaits a call while fake time passes. */
async function settled<T>(call: Promise<T>): Promise<T | BelfryError> {
  const result = call.catch((err: unknown) => err as BelfryError);
  await vi.runAllTimersAsync();
  return result;
}

test("each address is asked at once, then a pause follows", async () => {
  const { requests, fetch } = scripted(broken(), closed(), task);
  const belfry = new Belfry({ addresses: ["http://a", "b:1/"], fetch });
  await settled(belfry.schedule({ id: "t", delay: "1h" }));
  expect(requests.map(({ url }) => url)).toEqual([
    "http://a/v1/tasks/t",
    "http://b:1/v1/tasks/t",
    "http://a/v1/tasks/t",
  ]);
  expect(new Set(requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
});

test("the budget bounds the repeats of all calls", async () => {
  const { requests, fetch } = scripted(broken());
  const belfry = new Belfry({ addresses: "http://a", fetch, retryBudget: 3 });
  expect(await settled(belfry.get("t"))).toBeInstanceOf(ConnectionError);
  expect(requests.length).toBe(4);
  await settled(belfry.get("t"));
  expect(requests.length).toBe(5);
});

test("a timeout tells whether the call may have happened", async () => {
  for (const [answer, committed] of [
    [closed(), "no"],
    [broken(), "unknown"],
    [problem(503, "not-committed"), "unknown"],
  ] as const) {
    const belfry = new Belfry({ addresses: "http://a", fetch: scripted(answer).fetch, timeout: 1_000 });
    const err = (await settled(belfry.cancel("t"))) as TimeoutError;
    expect(err).toBeInstanceOf(TimeoutError);
    expect(err.committed, String(answer)).toBe(committed);
    expect(err.cause).toBeInstanceOf(BelfryError);
  }
});

test("an opaque redirect of a browser is refused", async () => {
  const answer = {
    type: "opaqueredirect",
    status: 0,
    ok: false,
    body: null,
    clone() {
      return this;
    },
  } as unknown as Response;
  const belfry = new Belfry({ addresses: "http://a", fetch: scripted(answer, answer).fetch });
  expect(await settled(belfry.get("t"))).toBeInstanceOf(ProtocolError);
});

test("an abort ends a pause and a request with its reason", async () => {
  const control = new AbortController();
  const hang: Answer = (_, init) =>
    new Promise((_, reject) => init.signal!.addEventListener("abort", () => reject(init.signal!.reason as Error)));
  for (const answer of [broken(), hang]) {
    const call = new Belfry({ addresses: "http://a", fetch: scripted(answer).fetch })
      .get("t", { signal: control.signal })
      .catch((err: unknown) => err);
    await vi.advanceTimersByTimeAsync(10);
    control.abort("enough");
    expect(await call).toBe("enough");
  }
});

test("ids that a URL would swallow never leave", async () => {
  const { requests, fetch } = scripted(task);
  const belfry = new Belfry({ addresses: "http://a", fetch });
  for (const id of ["", ".", "..", "\ud800"]) {
    const err = await settled(belfry.cancel(id));
    expect(err).toBeInstanceOf(InvalidError);
    expect((err as InvalidError).field).toBe("id");
  }
  expect(requests).toEqual([]);
});

test("settings come from the environment, and keys stay out of errors", async () => {
  vi.stubEnv("BELFRY_ADDR", "http://a,http://b");
  vi.stubEnv("BELFRY_KEY", "bfy_secret");
  vi.stubEnv("BELFRY_NAMESPACE", "orders");
  const { requests, fetch } = scripted(new Response("authorization: Bearer bfy_secret", { status: 400 }));
  const logged: unknown[] = [];
  const logger = { debug: (...args: unknown[]) => logged.push(args), warn: (...args: unknown[]) => logged.push(args) };
  const err = (await settled(new Belfry({ fetch, logger }).get("t"))) as Error;
  expect(requests[0]).toMatchObject({
    url: "http://a/v1/namespaces/orders/tasks/t",
    headers: { authorization: "Bearer bfy_secret" },
  });
  expect(JSON.stringify([err, err.message, err.stack, logged])).not.toContain("bfy_secret");
});

test("wrong settings are refused without their secrets", () => {
  for (const addresses of ["http://user:bfy_secret@a", "ftp://a", "http://", []]) {
    expect(() => new Belfry({ addresses })).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining("bfy_secret") }),
    );
  }
});
