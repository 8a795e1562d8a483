import { BelfryDev } from "../src/testing.js";
import { afterAll, beforeAll, expect, test, vi } from "vitest";

import { signed } from "./signed.js";

// The snippets of README.md, which test/readme.mjs extracts. The one about tests is a test of its own.
let belfry: BelfryDev;
const printed: string[] = [];
beforeAll(async () => {
  belfry = await BelfryDev.start();
  vi.stubEnv("BELFRY_ADDR", belfry.url);
  vi.stubEnv("BELFRY_SECRET", signed.secret);
  vi.spyOn(console, "log").mockImplementation((...words) => {
    printed.push(words.join(" "));
  });
});
afterAll(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  await belfry.close();
});

const snippet = (name: string) => import(`./readme/${name}.ts`) as Promise<Record<string, unknown>>;

test("schedule and cancel", async () => {
  await snippet("schedule");
  expect(printed.splice(0)).toEqual([expect.stringMatching(/^\d{4}-/), "cancelled"]);
});

test("read and list", async () => {
  await belfry.client.schedule({ id: "listed", delay: "1h", queue: "orders", labels: { tenant: "acme" } });
  await snippet("list");
  expect(printed.splice(0)).toEqual([expect.stringMatching(/^listed \d{4}-/), "task-not-found no"]);
});

test("change many", async () => {
  await snippet("batch");
  expect(printed.splice(0)).toEqual(["2500 0"]);
});

test("repeat", async () => {
  await snippet("repeat");
  expect(printed.splice(0)).toEqual(Array(3).fill(expect.stringMatching(/T09:00:00/)));
});

test("follow events", async () => {
  const shop = await belfry.receiver();
  await belfry.client.schedule({ id: "followed", delay: "1m", target: { url: shop.url } });
  await belfry.advance("1m");
  await shop.next();
  await vi.waitFor(
    async () => {
      vi.resetModules();
      await snippet("events");
      expect(printed.splice(0)).toContainEqual(expect.stringMatching(/^followed delivered/));
    },
    { timeout: 10_000 },
  );
});

test("work", async () => {
  await belfry.client.schedule({ id: "mail", delay: "0s", queue: "mails", payload: { to: "a@b.example" } });
  const ended = snippet("worker");
  await vi.waitFor(() => expect(printed.splice(0)).toContainEqual(expect.stringMatching(/^a@b\.example \d+$/)), {
    timeout: 10_000,
  });
  process.emit("SIGTERM");
  await ended;
  expect((await belfry.client.get("mail")).state).toBe("delivered");
});

test("receive by fetch", async () => {
  const module = await snippet("fetch");
  const { headers, body } = await signed.request({ order: 1042 });
  const handler = module["default"] as { fetch(request: Request): Promise<Response> };
  const answer = await handler.fetch(new Request("http://shop.example/", { method: "POST", headers, body }));
  expect([answer.status, ...printed.splice(0)]).toEqual([204, "close 1042 order-1042 7 msg_1"]);
});

test("receive by Express", async () => {
  const { app } = (await snippet("express")) as {
    app: { listen(port: number, then: () => void): import("node:http").Server };
  };
  const server = await new Promise<import("node:http").Server>((resolve) => {
    const listening = app.listen(0, () => resolve(listening));
  });
  const { port } = server.address() as import("node:net").AddressInfo;
  const { headers, body } = await signed.request({ order: 7 });
  const answer = await fetch(`http://127.0.0.1:${port}/close`, { method: "POST", headers, body });
  server.closeAllConnections();
  server.close();
  expect([answer.status, ...printed.splice(0)]).toEqual([204, "close 7"]);
});
