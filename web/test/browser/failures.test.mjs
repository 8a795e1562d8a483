// A node is killed while the page is open: another one, and the one that serves the page.
import { after, before, test } from 'node:test';
import { eventually, startCluster } from './cluster.mjs';
import { assertNoFaults, drawn, launch, openPage, picture } from './browser.mjs';

let cluster;
let browser;

before(async () => {
  [cluster, browser] = await Promise.all([startCluster(), launch()]);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

test('the page shows that another node died, and that it came back', async () => {
  const page = await openPage(browser, cluster.url, { path: 'cluster' });
  await page.locator('.node').nth(2).waitFor();
  const command = cluster.kill(2);
  await page.locator('.node.down').waitFor({ timeout: 30_000 });
  const replicas = page.locator('.figure', { has: page.getByText('Replicas', { exact: true }) });
  await replicas.getByText('2/3', { exact: true }).waitFor();
  await picture(page, 'node-killed');
  await eventually('all shards are led again',
    async () => (await cluster.api('GET', '/v1/cluster')).shards.every((s) => s.leader));
  cluster.revive(command);
  await page.locator('.node.down').waitFor({ state: 'detached', timeout: 60_000 });
  assertNoFaults(page);
  await page.context().close();
});

test('the page says since when it is stale, and goes on', async () => {
  const page = await openPage(browser, cluster.url, { path: '' });
  const events = await openPage(browser, cluster.url, { path: 'events' });
  await page.locator('.wheel canvas[tabindex]').waitFor();
  await events.getByText('live', { exact: true }).waitFor();
  const command = cluster.kill(1);
  await page.locator('.stale').getByText(/Stale for/).waitFor({ timeout: 20_000 });
  await events.getByText(/Stale for/).first().waitFor({ timeout: 20_000 });
  await picture(page, 'stale');
  cluster.revive(command);
  await page.locator('.stale').getByText(/Stale for/).waitFor({ state: 'detached', timeout: 60_000 });
  await events.getByText('live', { exact: true }).waitFor({ timeout: 60_000 });
  await cluster.api('PUT', '/v1/tasks/after-the-kill', { delay: '0s' });
  await events.locator('tbody').getByText('after-the-kill').first().waitFor({ timeout: 30_000 });
  assertNoFaults(page);
  assertNoFaults(events);
});

test('a page shows the rest when one of its calls fails, and says why', async () => {
  await cluster.api('PUT', '/v1/schedules/half', { repeat: { every: '1h' }, task: { queue: 'orders' } });
  const pages = [['', 'activity', '.wheel canvas[tabindex]'],
    ['schedules/half', 'schedules/half/occurrences', '.sentence']];
  for (const [path, call, rest] of pages) {
    const page = await openPage(browser, cluster.url, { path: 'keys' });
    const body = JSON.stringify({ title: 'Unavailable', status: 503, kind: 'unavailable', detail: 'It has no leader.' });
    const url = new RegExp(`/${call}(\\?|$)`);
    await page.route(url, (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', body }));
    await page.visit(path);
    await page.getByRole('alert').getByText('It has no leader.').waitFor();
    await drawn(page, rest);
    await page.unroute(url);
    await page.getByRole('alert').waitFor({ state: 'detached' });
    assertNoFaults(page);
    await page.context().close();
  }
});
