// The pages with millions of tasks behind them: each is there within a second, and none of its calls takes longer than
// 200 ms. TASKS is the number of tasks. `make dashboard-scale` runs this, for it takes minutes and gigabytes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, startCluster, startReceiver } from '../browser/cluster.mjs';
import { assertNoFaults, drawn, launch, openPage } from '../browser/browser.mjs';
import { load } from '../browser/load.mjs';
import { seed } from '../browser/seed.mjs';

const tasks = Number(process.env.TASKS || 1e6);
const [pageMs, callMs] = [1000, 200];
const tries = 3; // of which the fastest counts, since the nodes and the browser share a machine
const hour = 3600e3;

const pages = [
  ['', 'canvas'], ['tasks', 'tbody tr'], ['tasks?prefix=job-7', 'tbody tr'],
  ['tasks?label=tenant=t7&state=scheduled', 'tbody tr'], ['tasks?queue=jobs-3', 'tbody tr'], ['tasks/job-77', '.timeline'],
  ['schedules', 'tbody tr'], ['queues', 'tbody tr'], ['queues/jobs-3', '.figures'], ['dead', 'tbody tr'],
  ['events', 'h1'], ['cluster', '.node'], ['operations', 'h1'], ['audit', 'tbody tr'],
];

let cluster;
let receiver;
let browser;

before(async () => {
  [cluster, receiver, browser] = await Promise.all([startCluster(), startReceiver(), launch()]);
  await seed(cluster, receiver);
  await fill();
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
  await receiver?.stop();
});

// fill schedules the tasks, some hours to a month ahead.
async function fill() {
  await load(cluster, tasks, (i) => ({ id: `job-${i}`, queue: `jobs-${i % 20}`,
    delay: `${2 * hour + ((i * 7919) % (30 * 24 * hour))}ms`, labels: { tenant: `t${i % 100}` } }));
  const { waiting } = await cluster.api('GET', '/v1/wheel');
  assert.ok(waiting >= tasks, `${waiting} tasks wait`);
  await rest();
}

// rest waits until the nodes have written the snapshots of their new tasks.
async function rest() {
  const used = async () => {
    const texts = await Promise.all(cluster.urls.map(async (url) => (await fetch(`${url}/metrics`)).text()));
    return texts.reduce((sum, text) => sum + Number(text.match(/^process_cpu_seconds_total (.*)$/m)[1]), 0);
  };
  let [before, since] = [await used(), Date.now()];
  await eventually('the nodes rest', async () => {
    const seconds = (Date.now() - since) / 1000;
    if (seconds < 3) return false;
    const now = await used();
    const busy = (now - before) / seconds;
    [before, since] = [now, Date.now()];
    return busy < 0.3;
  }, 300e3);
}

// visit opens a page in a fresh browser context. It returns the milliseconds until the page is there, and those of its
// slowest call.
async function visit(path, sign) {
  const page = await openPage(browser, cluster.url, { path: 'nothing' });
  await page.locator('h1').first().waitFor();
  let slowest = { ms: 0 };
  page.on('requestfinished', (request) => {
    const ms = request.timing().responseEnd;
    if (request.url().includes('/v1/') && ms > slowest.ms) slowest = { ms, url: request.url().slice(cluster.url.length) };
  });
  const began = performance.now();
  await page.visit(path);
  await drawn(page, sign);
  const ms = performance.now() - began;
  assertNoFaults(page);
  await page.context().close();
  return { ms, slowest };
}

for (const [path, sign] of pages) {
  test(`/ui/${path} with ${tasks} tasks`, async (t) => {
    const visits = [];
    for (let i = 0; i < tries; i++) visits.push(await visit(path, sign));
    const ms = Math.min(...visits.map((v) => v.ms));
    const { slowest } = visits.reduce((a, b) => (a.slowest.ms < b.slowest.ms ? a : b));
    t.diagnostic(`${Math.round(ms)} ms, slowest call ${Math.round(slowest.ms)} ms ${slowest.url || ''}`);
    assert.ok(ms < pageMs, `${ms} ms`);
    assert.ok(slowest.ms < callMs, `${slowest.url} takes ${slowest.ms} ms`);
  });
}
