import { expect, test } from "vitest";

import { decode, encode, milliseconds, queryOf } from "../src/wire.js";

test("names change, and the caller's own stay", () => {
  const out = encode({
    fireAt: new Date(0),
    payload: { camelCase: 1, snake_case: 2 },
    labels: { aB: "c" },
    retry: { maxAttempts: 3 },
    target: { url: "u", headers: { "X-a": "b" } },
  });
  expect(JSON.parse(out)).toEqual({
    fire_at: "1970-01-01T00:00:00.000Z",
    payload: { camelCase: 1, snake_case: 2 },
    labels: { aB: "c" },
    retry: { max_attempts: 3 },
    target: { url: "u", headers: { "X-a": "b" } },
  });
  expect(decode('{"next_attempt_at":null,"payload":{"a_b":1},"list":[{"c_d":1}],"due_1m":2}')).toEqual({
    nextAttemptAt: null,
    payload: { a_b: 1 },
    list: [{ cD: 1 }],
    due1m: 2,
  });
});

test("integers of 64 bits are exact", () => {
  expect(decode('{"fence":18446744073709551615,"revision": 9007199254740993,"history":[{"fence":1}]}')).toEqual({
    fence: 18446744073709551615n,
    revision: "9007199254740993",
    history: [{ fence: 1n }],
  });
  const text =
    '{"payload":{"fence":1,"t":"\\" 12345678901234567 \\\\","x":0.12345678901234567,"y":1e22},"revision":12345678901234567}';
  expect(decode(text)).toEqual({
    // eslint-disable-next-line no-loss-of-precision -- JSON.parse rounds the payload just so
    payload: { fence: 1, t: '" 12345678901234567 \\', x: 0.12345678901234567, y: 1e22 },
    revision: "12345678901234567",
  });
});

test("queries repeat lists and pair labels", () => {
  expect(queryOf({})).toBe("");
  expect(queryOf({ dueAfter: new Date(0), state: ["dead", "ready"], label: { a: "b" }, limit: undefined })).toBe(
    "?due_after=1970-01-01T00%3A00%3A00.000Z&state=dead&state=ready&label=a%3Ab",
  );
});

test("durations", () => {
  expect(["500ms", "1.5s", "1h30m", "7d"].map(milliseconds)).toEqual([500, 1_500, 5_400_000, 604_800_000]);
  for (const wrong of ["", "1", "s", "PT1S", "1s-"]) expect(() => milliseconds(wrong)).toThrow(TypeError);
});
