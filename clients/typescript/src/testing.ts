import { type ChildProcess, spawn } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

import { Belfry } from "./client.js";
import { bodyOf } from "./receiver.js";
import type { Duration } from "./types.js";

/** One attempt as its receiver saw it. */
export interface Received<P = unknown> {
  task: string;
  /** The same for all attempts of an occurrence. */
  webhookId: string;
  attempt: number;
  due: Date;
  headers: Headers;
  body: Uint8Array;
  /** Undefined if the body is not JSON. */
  payload: P | undefined;
}

/** Answers a delivery. Nothing stands for 204. */
export type Respond = (delivery: Received) => Response | void | Promise<Response | void>;

const startTime = 30_000;
const nextTime = 10_000;

/** A node of its own for tests, whose clock is set ahead: `belfry dev`. Any number run side by side. */
export class BelfryDev {
  readonly client: Belfry;
  #receivers: TestReceiver[] = [];
  private constructor(
    readonly url: string,
    readonly process: ChildProcess,
  ) {
    this.client = new Belfry({ addresses: url, key: "", namespace: "" });
  }

  /** Starts the program BELFRY_BINARY, or `belfry` of the PATH. It is never downloaded. */
  static async start(binary = process.env["BELFRY_BINARY"] ?? "belfry"): Promise<BelfryDev> {
    const child = spawn(binary, ["dev", "--http", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "pipe"] });
    const end = () => child.kill("SIGKILL");
    process.once("exit", end);
    child.once("exit", () => process.off("exit", end));
    const url = await new Promise<string>((resolve, reject) => {
      let text = "";
      const fail = (why: string) => reject(new Error(`${binary} dev ${why}\n${text}`.trimEnd()));
      const timer = setTimeout(() => {
        child.kill("SIGKILL");
        fail("did not start in time");
      }, startTime);
      const read = (part: Buffer) => {
        text += part.toString();
        const found = /ready: (http:\S+)/.exec(text);
        if (found) resolve(found[1]!);
        if (found) clearTimeout(timer);
      };
      child.stdout.on("data", read);
      child.stderr.on("data", (part: Buffer) => {
        text += part.toString();
      });
      child.once("error", (err: NodeJS.ErrnoException) => {
        clearTimeout(timer);
        fail(err.code === "ENOENT" ? "was not found: name the program in BELFRY_BINARY" : err.message);
      });
      child.once("exit", (code) => {
        clearTimeout(timer);
        fail(`ended with status ${code}`);
      });
    });
    return new BelfryDev(url, child);
  }

  /** Sets the clock ahead. Tasks come due in order; returns the number of attempts and leases that began meanwhile. */
  async advance(by: Duration): Promise<number> {
    return (
      await this.client.request<{ begun: number }>("POST", "/v1/dev/advance", { body: { by } }, { timeout: 300_000 })
    ).begun;
  }

  /** Starts a receiver of webhooks on this machine. */
  async receiver(respond?: Respond): Promise<TestReceiver> {
    const receiver = await TestReceiver.start(respond);
    this.#receivers.push(receiver);
    return receiver;
  }

  /** Ends the node and the receivers. */
  async close(): Promise<void> {
    for (const receiver of this.#receivers) receiver.close();
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    if (this.process.exitCode !== null || this.process.signalCode !== null || !this.process.kill("SIGTERM")) return;
    await ended;
  }
}

/** Records deliveries. It answers 204 unless `respond` answers otherwise. */
export class TestReceiver {
  readonly all: Received[] = [];
  #read = 0;
  #arrived: (() => void)[] = [];
  private constructor(
    readonly url: string,
    readonly server: Server,
  ) {}

  static async start(respond: Respond = () => undefined): Promise<TestReceiver> {
    const server = createServer((req, res) => {
      void (async () => {
        const delivery = deliveryOf(new Headers(req.headers as Record<string, string>), await bodyOf(req, 16 << 20));
        receiver.#record(delivery);
        const answer = (await respond(delivery)) ?? new Response(null, { status: 204 });
        res.writeHead(answer.status, [...answer.headers].flat()).end(Buffer.from(await answer.arrayBuffer()));
      })().catch((err: unknown) => {
        res.writeHead(500).end(String(err));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const receiver = new TestReceiver(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server);
    return receiver;
  }

  #record(delivery: Received): void {
    this.all.push(delivery);
    for (const wake of this.#arrived.splice(0)) wake();
  }

  /** Returns the first delivery that no call of next has returned yet. Waits up to 10 seconds of real time. */
  async next<P = unknown>(): Promise<Received<P>> {
    const at = this.#read++;
    const deadline = performance.now() + nextTime;
    while (this.all.length <= at) {
      const left = deadline - performance.now();
      if (left <= 0) throw new Error(`no further delivery came to ${this.url}; ${this.all.length} came before`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#arrived.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    return this.all[at] as Received<P>;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }
}

function deliveryOf(headers: Headers, body: Uint8Array): Received {
  let payload: unknown;
  try {
    payload = JSON.parse(new TextDecoder().decode(body));
  } catch {
    payload = undefined;
  }
  return {
    task: decodeURIComponent(headers.get("ce-subject") ?? ""),
    webhookId: headers.get("webhook-id") ?? "",
    attempt: Number(headers.get("belfry-attempt")),
    due: new Date(headers.get("belfry-due") ?? NaN),
    headers,
    body,
    payload,
  };
}
