import { expect, test } from "vitest";

import { MemoryFences, Receiver, refusalOf } from "../src/receiver.js";
import { signed } from "./signed.js";

const receiver = (options = {}) => new Receiver({ secrets: [signed.secret], ...options });

test("a delivery has its fields", async () => {
  const { headers, body } = signed.request({ order: 1 }, { "ce-subject": "a%20b", "belfry-fence": "9007199254740993" });
  const delivery = await receiver().verify<{ order: number }>(headers, body);
  expect(delivery).toMatchObject({
    task: "a b",
    webhookId: "msg_1",
    fence: 9007199254740993n,
    attempt: 1,
    payload: { order: 1 },
  });
  expect(delivery.tasks).toHaveLength(1);
});

test("a handler answers refusals by their status", async () => {
  const now = Date.now();
  const ask = async (changes: Record<string, string>, options = {}) => {
    const { headers, body } = signed.request({}, changes, now);
    return (
      await receiver(options).handler(() => undefined)(new Request("http://a/", { method: "POST", headers, body }))
    ).status;
  };
  expect(await ask({})).toBe(204);
  expect(await ask({ "belfry-fence": "x" })).toBe(400);
  expect(await ask({ "ce-subject": "%" })).toBe(400);
  expect(await ask({ "webhook-signature": "v1,x" })).toBe(401);
  expect(await ask({}, { now: () => now + 400_000 })).toBe(401);
  expect(await ask({}, { fences: { raise: () => false } })).toBe(409);
  expect(await ask({}, { maxBody: 1 })).toBe(413);
  expect(await ask({}, { fences: { raise: () => Promise.reject(new Error("the database's password")) } })).toBe(503);
  expect(refusalOf(new Error("the database's password")).text).not.toContain("password");
});

test("a batch marks its stale tasks", async () => {
  const event = (subject: string, fence: string) => ({
    id: "msg_" + subject,
    subject,
    source: "/v1/queues/q",
    time: "2026-01-02T03:04:05Z",
    belfryattempt: 1,
    belfryfence: fence,
    data: { snake_case: 1 },
  });
  const { headers, body } = signed.request([event("a", "5"), event("b", "9007199254740993")], {
    "content-type": "application/cloudevents-batch+json",
  });
  const fences = new MemoryFences();
  fences.raise("a", 6n);
  const { tasks } = await receiver({ fences }).verify(headers, body);
  expect(tasks).toMatchObject([
    { task: "a", stale: true, payload: { snake_case: 1 } },
    { task: "b", stale: false, fence: 9007199254740993n },
  ]);
});

test("fences forget the tasks seen longest ago", () => {
  const fences = new MemoryFences(2);
  expect([fences.raise("a", 2n), fences.raise("a", 1n), fences.raise("a", 2n)]).toEqual([true, false, true]);
  fences.raise("b", 1n);
  fences.raise("c", 1n);
  expect(fences.raise("a", 1n)).toBe(true);
});

test("wrong secrets are refused and not shown", () => {
  for (const secrets of [[], ["abc"], ["whsec_"], ["whsec_ä"]]) {
    expect(() => receiver({ secrets })).toThrow(/^(?!.*abc)/);
  }
});
