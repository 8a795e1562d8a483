// Changes of the cluster's shape. The tests follow each other: five nodes become four, and then three.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { eventually, startCluster } from './cluster.mjs';
import { assertNoFaults, inspect, launch, openPage } from './browser.mjs';

let cluster;
let browser;
let page;

before(async () => {
  [cluster, browser] = await Promise.all([startCluster({ nodes: 5, flags: ['--shards', '2'] }), launch()]);
  for (let i = 0; i < 20; i++) await cluster.api('PUT', `/v1/tasks/kept-${i}`, { delay: '10h' });
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});
beforeEach(async () => {
  page = await openPage(browser, cluster.url, { path: 'cluster' });
  await page.locator('.node').first().waitFor();
});
afterEach(async () => {
  assertNoFaults(page);
  await eventually('all tasks are there',
    async () => (await cluster.api('GET', '/v1/tasks?prefix=kept-&limit=100')).tasks.length === 20);
  await page.context().close();
});

const button = (name, within = page) => within.getByRole('button', { name, exact: true });
const dialog = () => page.getByRole('dialog');
const card = (name) => page.locator('.node').filter({ has: page.getByRole('heading', { name, exact: true }) });
const view = () => cluster.api('GET', '/v1/cluster');
const nodeNamed = async (name) => (await view()).nodes.find((n) => n.name === name);

// carryOut waits for the steps in the dialog, begins the operation, and follows it to its end.
async function carryOut(action, step) {
  await dialog().getByRole('listitem').filter({ hasText: step }).first().waitFor();
  await begin(action);
}

async function begin(action) {
  await button(action, dialog()).click();
  await page.waitForURL('**/ui/operations/**');
  const path = `/v1/operations/${new URL(page.url()).pathname.split('/').pop()}`;
  await eventually(`${action} is done`, async () => (await cluster.api('GET', path)).state === 'done', 60_000);
  await page.locator('.sentence').getByText('done', { exact: true }).waitFor();
}

// refuses checks that the dialog names a reason, offers no way on, and has changed nothing.
async function refuses(action, reason) {
  const before = (await view()).operations.length;
  await dialog().getByRole('alert').getByText(reason).waitFor();
  assert.ok(await button(action, dialog()).isDisabled());
  assert.equal((await view()).operations.length, before);
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'detached' });
}

test('a shard is split', async () => {
  await button('Split shard 1').click();
  await inspect(page, 'the plan of a split');
  await carryOut('Split', '1024 slots from shard 1 to the new shard 3');
  assert.equal((await view()).shards.filter((s) => s.id > 0).length, 3);
});

test('the shards are balanced', async () => {
  await button('Balance…').click();
  await dialog().getByLabel('Shards afterwards').fill('4');
  await carryOut('Balance', '1024 slots from shard 2 to the new shard 4');
  const slots = (await view()).shards.filter((s) => s.id > 0)
    .map((s) => s.slots.reduce((sum, r) => sum + r.end - r.first, 0));
  assert.deepEqual(slots, [1024, 1024, 1024, 1024]);
});

test('a node gives up its leaderships, and is resumed', async () => {
  await button('Drain…', card('node-2')).click();
  await dialog().getByLabel('Only leaderships, for maintenance').check();
  await dialog().getByText(/\d steps?$|Nothing has to move/).waitFor();
  await begin('Drain');
  const rests = await nodeNamed('node-2');
  assert.deepEqual([rests.order, rests.leads], ['rest', 0]);
  await page.visit('cluster');
  await card('node-2').getByText('leads nothing').waitFor();
  await button('Resume…', card('node-2')).click();
  await begin('Resume');
  assert.equal((await nodeNamed('node-2')).order, 'work');
});

test('a node is drained, and resumed', async () => {
  const { replicas } = await nodeNamed('node-5');
  assert.ok(replicas > 0);
  await button('Drain…', card('node-5')).click();
  await carryOut('Drain', 'the replica on node-5 goes');
  const drained = await nodeNamed('node-5');
  assert.deepEqual([drained.order, drained.replicas], ['drain', 0]);
  await page.visit('cluster');
  await card('node-5').getByText('being drained').waitFor();
  await button('Resume…', card('node-5')).click();
  await begin('Resume');
  assert.equal((await nodeNamed('node-5')).order, 'work');
});

test('a node is removed', async () => {
  await button('Remove…', card('node-5')).click();
  await begin('Remove');
  assert.equal(await nodeNamed('node-5'), undefined);
  await page.visit('cluster');
  await card('node-4').waitFor();
  assert.equal(await card('node-5').count(), 0);
});

test('a dead node is replaced by the others', async () => {
  cluster.kill(4);
  await button('Replace…', card('node-4')).click();
  await carryOut('Replace', 'the replica on node-4 goes');
  const { nodes, replication } = await view();
  assert.deepEqual(nodes.map((n) => n.name).sort(), ['node-1', 'node-2', 'node-3']);
  assert.equal(replication.fewest, 3);
});

test('three nodes with three replicas cannot give up one, and the dialogs say why', async () => {
  for (const action of ['Drain', 'Remove']) {
    await button(`${action}…`, card('node-3')).click();
    await refuses(action, 'let another node join, or lower the replication factor first');
  }
  await button('Replication…').click();
  await dialog().getByLabel('Replicas of each shard').selectOption('5');
  await refuses('Replication', '5 replicas of each shard need as many nodes');
  const { nodes, replication } = await view();
  assert.deepEqual(nodes.map((n) => n.order), ['work', 'work', 'work']);
  assert.equal(replication.wanted, 3);
});

test('the replication is changed', async () => {
  await button('Replication…').click();
  await dialog().getByLabel('Replicas of each shard').selectOption('1');
  await carryOut('Replication', /the replica on node-\d goes/);
  const { replication } = await view();
  assert.deepEqual([replication.wanted, replication.fewest], [1, 1]);
});
