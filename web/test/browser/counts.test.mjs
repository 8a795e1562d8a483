// Figures and lists with more behind them than one answer or one screen holds.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { eventually, startCluster, startReceiver } from './cluster.mjs';
import { assertNoFaults, launch, openPage } from './browser.mjs';
import { load } from './load.mjs';

let cluster;
let receiver;
let browser;
let page;

before(async () => {
  [cluster, receiver, browser] = await Promise.all([startCluster({ nodes: 1 }), startReceiver(), launch()]);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
  await receiver?.stop();
});
beforeEach(async () => {
  page = await openPage(browser, cluster.url, { path: 'keys' });
  await page.getByRole('navigation').first().waitFor();
});
afterEach(async () => {
  assertNoFaults(page);
  await page.context().close();
});

const button = (name) => page.getByRole('button', { name, exact: true });
const rows = () => page.locator('tbody tr');

// eventsInMemory counts the events that the page keeps, drawn or not.
async function eventsInMemory() {
  const session = await page.context().newCDPSession(page);
  const prototype = await session.send('Runtime.evaluate', { expression: 'Object.prototype' });
  const { objects } = await session.send('Runtime.queryObjects', { prototypeObjectId: prototype.result.objectId });
  const counted = await session.send('Runtime.callFunctionOn', { objectId: objects.objectId, returnByValue: true,
    functionDeclaration: `function () {
      return this.filter((o) => ['id', 'at', 'type', 'task'].every((name) => Object.hasOwn(o, name))).length;
    }` });
  await session.detach();
  return counted.result.value;
}

// accented counts the pixels of the wheel that are in its accent, a brown.
const accented = () => page.locator('.wheel canvas').evaluate((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let n = 0;
  for (let i = 0; i < data.length; i += 4) n += data[i + 3] > 40 && data[i] - data[i + 2] > 40 ? 1 : 0;
  return n;
});

test('an empty cluster shows the calls that fill the page, and an empty wheel', async () => {
  await page.visit('');
  await page.getByText('Nothing here yet.').waitFor();
  await page.locator('.wheel canvas').waitFor();
  assert.equal(await accented(), 0);
  const commands = page.locator('.card', { hasText: 'Nothing here yet.' }).locator('.command code');
  assert.equal(await commands.count(), 3);
  assert.ok((await commands.first().boundingBox()).y < 400);
  for (const text of await commands.allTextContents()) execFileSync('sh', ['-c', text], { stdio: 'ignore' });
  await page.getByText('Nothing here yet.').waitFor({ state: 'detached' });
  await cluster.api('PUT', '/v1/tasks/later', { delay: '1h' });
  await eventually('the wheel has a task', async () => await accented() > 0);
  await cluster.api('DELETE', '/v1/tasks/later');
  await eventually('the wheel has no cancelled task', async () => await accented() === 0);
});

test('held events are bounded, and those of an earlier filter do not come back', async () => {
  await page.visit('events?queue=flood');
  await page.getByText('live', { exact: true }).waitFor();
  await button('Hold').click();
  await load(cluster, 1000, (i) => ({ id: `flood-${i}`, queue: 'flood', delay: '1h' }));
  await page.getByText('held; 1000 more events').waitFor();
  const kept = await eventsInMemory();
  assert.ok(kept >= 400 && kept < 500, `${kept} events are kept`);
  await button('Go on').click();
  await rows().first().waitFor();
  assert.equal(await rows().count(), 400);

  await button('Hold').click();
  await cluster.api('PUT', '/v1/tasks/flood-late', { queue: 'flood', delay: '1h' });
  await page.getByText('held; 1 more event', { exact: true }).waitFor();
  await page.getByRole('searchbox', { name: 'Filter' }).fill('queue:brook');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/events?queue=brook');
  await cluster.api('PUT', '/v1/tasks/brook-0', { queue: 'brook', delay: '1h' });
  await page.getByText('held; 1 more event', { exact: true }).waitFor();
  await button('Go on').click();
  await rows().filter({ hasText: 'brook-0' }).waitFor();
  assert.equal(await rows().count(), 1);
});

test('figures count every page of queues, and name their namespaces', async () => {
  await cluster.api('PUT', '/v1/namespaces/shop', {});
  for (const queue of ['alpha', 'beta']) await cluster.api('PUT', `/v1/queues/${queue}`, {});
  await cluster.api('PUT', '/v1/queues/zebra', { target: { url: `${receiver.url}/bad` }, retry: { max_attempts: 1 } });
  for (const id of ['z-0', 'z-1']) await cluster.api('PUT', `/v1/tasks/${id}`, { queue: 'zebra', delay: '0s' });
  await eventually('two dead letters', async () => (await cluster.api('GET', '/v1/queues/zebra')).counts.dead === 2);

  await page.route(/\/queues\?/, (route) => route.continue( // so that each queue has a page of its own
    { url: route.request().url().replace('limit=1000', 'limit=1') }));
  const figure = (name) => page.locator('.figure', { has: page.getByText(name, { exact: true }) }).locator('strong');
  await page.visit('');
  await figure('Dead letters · default').getByText('2', { exact: true }).waitFor();
  for (const name of ['Waiting', 'Fired', 'p99 lateness']) await figure(`${name} · all namespaces`).waitFor();
  await page.visit('dead');
  await page.locator('.chip', { hasText: 'zebra' }).getByText('2').waitFor();

  await page.visit('?ns=shop');
  await figure('Dead letters · shop').getByText('0', { exact: true }).waitFor();
});
