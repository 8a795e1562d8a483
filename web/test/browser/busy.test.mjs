// The overview of a busy cluster, which is the picture in the docs: `make pictures` takes it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, startCluster, startReceiver } from './cluster.mjs';
import { assertNoFaults, drawn, launch, openPage, picture, pictured } from './browser.mjs';
import { load } from './load.mjs';

const tasks = 50_000;
const queues = ['orders', 'ratings', 'presence'];
const [flow, peak, year] = [600e3, 240e3, 365 * 24 * 3600e3]; // in milliseconds

let cluster;
let receiver;
let browser;

before(async () => {
  [cluster, receiver, browser] = await Promise.all([startCluster(), startReceiver(), launch()]);
  const target = { url: `${receiver.url}/ok` };
  for (const queue of queues) await cluster.api('PUT', `/v1/queues/${queue}`, { target });
  await load(cluster, tasks, (i) => ({ id: `job-${i}`, queue: queues[i % queues.length], delay: `${delayOf(i)}ms` }));
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
  await receiver?.stop();
});

// delayOf returns the delay of the i-th task: a steady flow through ten minutes, a peak within it, and then as many tasks
// between ten minutes and an hour as between one year and six.
function delayOf(i) {
  if (i % 16 === 0) return Math.round((i / tasks) * flow);
  if (i % 160 === 1) return peak + (i % 7000);
  return Math.round(flow * (10 * year / flow) ** (((i * 7919) % tasks) / tasks));
}

// A picture shows a few minutes of deliveries. Without one, the first of them is enough.
test('the overview of a busy cluster', { timeout: 600e3 }, async () => {
  const wanted = pictured ? 36 : 2;
  await eventually('tasks are delivered', async () => {
    const { steps } = await cluster.api('GET', '/v1/activity');
    return steps.filter((step) => step.delivered > 0).length >= wanted;
  }, 300e3);
  const page = await openPage(browser, cluster.url, { width: 1240, height: 930 });
  await page.getByText('healthy').first().waitFor();
  const figure = page.locator('.figure', { hasText: 'Waiting' }).locator('dd').first();
  await figure.getByText(/^(4\d(\.\d)?|50)K$/).waitFor();
  const { due_within: due } = await cluster.api('GET', '/v1/wheel');
  assert.ok(due['1m'] > 0 && due['1h'] > due['1m'], JSON.stringify(due));
  await drawn(page, '.wheel summary');
  await picture(page, 'dashboard', false);
  assertNoFaults(page);
});
