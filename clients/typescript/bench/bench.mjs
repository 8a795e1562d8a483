// Measures the client against loops of fetch alone, by turns. BELFRY_ADDR names a cluster; without it, the bench starts
// `belfry dev`. ROUNDS and SECONDS set the number of turns and the length of each.
import { Belfry } from "../dist/index.js";
import { BelfryDev } from "../dist/testing.js";
import { Worker } from "../dist/worker.js";

const rounds = Number(process.env.ROUNDS ?? 15);
const seconds = Number(process.env.SECONDS ?? 1);
const callers = 64;
const dev = process.env.BELFRY_ADDR ? undefined : await BelfryDev.start();
const base = process.env.BELFRY_ADDR?.split(",")[0] ?? dev.url;
const belfry = new Belfry({ addresses: base });
const json = { "content-type": "application/json" };

/** Makes a call again and again by all callers, and returns the calls in a second. */
async function callsOf(call) {
  const run = crypto.randomUUID();
  const began = performance.now();
  let calls = 0;
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      for (let n = 0; performance.now() - began < seconds * 1_000; n++, calls++) await call(`bench-${run}-${caller}-${n}`);
    }),
  );
  return (calls / (performance.now() - began)) * 1_000;
}

const byClient = (id) => belfry.schedule({ id, delay: "48h", payload: { order: 1042 } });
const byFetch = async (id) => {
  const body = JSON.stringify({ delay: "48h", payload: { order: 1042 } });
  const answer = await fetch(`${base}/v1/tasks/${id}`, { method: "PUT", headers: json, body });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

/** Fills a queue with due tasks, and returns the tasks that consume handles in a second. */
async function tasksOf(count, consume) {
  const queue = `bench-${crypto.randomUUID()}`;
  await belfry.queues.put(queue, { paused: true, keepDone: "1s" });
  const ops = Array.from({ length: count }, (_, i) => ({ op: "schedule", id: `${queue}-${i}`, delay: "0s", queue, payload: { i } }));
  for await (const result of belfry.batch(ops)) if (result.error) throw result.error;
  await belfry.queues.resume(queue);
  const began = performance.now();
  await consume(queue, count);
  return (count / (performance.now() - began)) * 1_000;
}

async function workByClient(queue, count) {
  let left = count;
  const worker = new Worker(belfry, queue, () => {
    if (--left === 0) worker.stop();
  });
  await worker.run();
}

async function post(path, content) {
  const answer = await fetch(base + path, { method: "POST", headers: json, body: JSON.stringify(content) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

/** Leases up to 64 tasks, and acknowledges them while the next ones are leased. */
async function workByFetch(queue, count) {
  let settling;
  for (let left = count; left > 0; ) {
    const { tasks } = await post(`/v1/queues/${queue}/lease`, { max: callers, wait: "1s", lease: "10s" });
    left -= tasks.length;
    await settling;
    if (tasks.length > 0) settling = post(`/v1/queues/${queue}/settle`, { ack: tasks.map(({ receipt }) => receipt) });
  }
  await settling;
}

/** Prints the medians of both, and of the ratios of their turns. */
async function compare(name, client, bare) {
  const turns = [];
  for (let round = 0; round <= rounds; round++) {
    const turn = [await client(), await bare()];
    if (round > 0) turns.push(turn); // the first one warms up
  }
  const median = (numbers) => Math.round(numbers.sort((a, b) => a - b)[rounds >> 1] * 100) / 100;
  const [ours, theirs] = [median(turns.map(([a]) => a)), median(turns.map(([, b]) => b))];
  console.log(`${name}: client ${Math.round(ours)}/s, bare ${Math.round(theirs)}/s, ratio ${median(turns.map(([a, b]) => a / b))}`);
}

await compare("schedule, 64 callers", () => callsOf(byClient), () => callsOf(byFetch));
const count = seconds * 5_000;
await compare("worker, concurrency 64", () => tasksOf(count, workByClient), () => tasksOf(count, workByFetch));
await dev?.close();
