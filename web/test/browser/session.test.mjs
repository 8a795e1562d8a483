// Sign-in, refusal, a key that ends while the page is open, and a key that sees a part only.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startCluster } from './cluster.mjs';
import { assertNoFaults, inspect, launch, openPage, picture } from './browser.mjs';

let cluster;
let browser;

before(async () => {
  [cluster, browser] = await Promise.all([startCluster({ auth: true }), launch()]);
  await cluster.api('PUT', '/v1/namespaces/shop', {});
  await cluster.api('PUT', '/v1/namespaces/shop/tasks/a', { delay: '1h' });
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});

const newKey = (name, ...grants) => cluster.api('POST', '/v1/keys', { name, grants });

async function signIn(page, key) {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('a wrong key is refused with a reason, a right one opens the page that was asked for', async () => {
  const page = await openPage(browser, cluster.url, { path: 'queues' });
  await page.getByLabel('API key').waitFor();
  await inspect(page, 'the sign-in');
  await picture(page, 'signin');
  await signIn(page, 'bfy_wrong');
  await page.locator('.error').waitFor();
  await signIn(page, cluster.key);
  await page.getByRole('heading', { name: 'Queues' }).waitFor();
  assert.match(page.url(), /\/ui\/queues$/);
  await page.reload();
  await page.getByRole('heading', { name: 'Queues' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  assert.equal(await page.evaluate(() => Object.keys(sessionStorage).length), 0);
  assertNoFaults(page);
});

test('a key that is revoked leads to the sign-in, and back to the same page', async () => {
  const made = await newKey('short', { role: 'operate', namespace: '*' });
  const page = await openPage(browser, cluster.url, { path: 'queues?prefix=x' });
  await signIn(page, made.key);
  await page.getByRole('heading', { name: 'Queues' }).waitFor();
  await cluster.api('DELETE', `/v1/keys/${made.id}`);
  await page.getByRole('heading', { name: 'Sign in again' }).waitFor({ timeout: 20_000 });
  await picture(page, 'expired');
  await signIn(page, cluster.key);
  await page.getByRole('heading', { name: 'Queues' }).waitFor();
  assert.match(page.url(), /prefix=x/);
  assertNoFaults(page);
});

test('a key that expires leads to the sign-in, without the dialog that was open', async () => {
  const page = await openPage(browser, cluster.url, { path: 'queues' });
  await page.getByLabel('API key').waitFor();
  const { key } = await cluster.api('POST', '/v1/keys', { name: 'brief', grants: [{ role: 'operate', namespace: '*' }],
    expires_at: new Date(Date.now() + 5000).toISOString() });
  await signIn(page, key);
  await page.getByRole('button', { name: 'New queue' }).click();
  await page.getByRole('dialog').getByLabel('Queue', { exact: true }).fill('half');
  await page.getByRole('heading', { name: 'Sign in again' }).waitFor({ timeout: 20_000 });
  await signIn(page, cluster.key);
  await page.getByRole('heading', { name: 'Queues' }).waitFor();
  assert.equal(await page.locator('dialog').count(), 0);
  assertNoFaults(page);
});

test('a key for one namespace sees its part, and which role shows the rest', async () => {
  const made = await newKey('reader', { role: 'read', namespace: 'shop' });
  const page = await openPage(browser, cluster.url);
  await signIn(page, made.key);
  await page.getByText('Your key shows a part of this').waitFor();
  await inspect(page, 'the overview of a part');
  await picture(page, 'part');
  assert.equal(await page.getByRole('link', { name: 'Audit' }).count(), 0);
  await page.visit('tasks');
  await page.getByRole('link', { name: 'a', exact: true }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'New task' }).count(), 0);
  await page.visit('tasks/a');
  await page.getByText('waits until').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Cancel' }).count(), 0);
  await page.visit('cluster');
  await page.getByText('Your key shows a part of this').waitFor();
  assertNoFaults(page);
});

test('keys are made, rotated and revoked', async () => {
  const page = await openPage(browser, cluster.url, { path: 'keys' });
  await signIn(page, cluster.key);
  await page.getByRole('button', { name: 'New key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('made in the page');
  await inspect(page, 'the dialog of a key');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  await dialog.getByText(/bfy_/).waitFor();
  await dialog.getByRole('button', { name: 'I have it' }).click();
  const row = page.getByRole('row', { name: /made in the page/ });
  await row.getByRole('button', { name: 'Rotate…' }).click();
  await dialog.getByRole('button', { name: 'Rotate' }).click();
  await dialog.getByText(/bfy_/).waitFor();
  await dialog.getByRole('button', { name: 'I have it' }).click();
  await row.getByRole('button', { name: 'Revoke…' }).click();
  await dialog.getByRole('button', { name: 'Revoke the key' }).click();
  await row.waitFor({ state: 'detached' });
  await page.visit('audit');
  await page.getByText('/v1/keys/{id}/rotate').first().waitFor();
  await inspect(page, 'the audit log');
  await picture(page, 'audit');
  assertNoFaults(page);
});

test('a key whose answer is lost is made once, and the list shows it', async () => {
  const page = await openPage(browser, cluster.url, { path: 'keys' });
  await signIn(page, cluster.key);
  let calls = 0;
  await page.route('**/v1/keys', async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    calls++;
    await route.fetch();
    return route.abort();
  });
  await page.getByRole('button', { name: 'New key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('unseen');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  await dialog.getByRole('alert').getByText('The node does not answer.').waitFor();
  assert.equal(calls, 1);
  const { keys } = await cluster.api('GET', '/v1/keys');
  assert.equal(keys.filter((k) => k.name === 'unseen').length, 1);
  await page.keyboard.press('Escape');
  await page.getByRole('row', { name: /unseen/ }).waitFor();
  assertNoFaults(page);
});

test('the audit log begins with its newest record, and its filters reach all records', async () => {
  const { key } = await newKey('looker', { role: 'read', namespace: '*' });
  await assert.rejects(cluster.api('PUT', '/v1/queues/forbidden', {}, { key }), /403/);
  await cluster.api('PUT', '/v1/queues/oldest', {});
  for (let i = 0; i < 10; i++) {
    await Promise.all(Array.from({ length: 60 }, (_, k) => cluster.api('PATCH', `/v1/queues/q-${k}`,
      { max_in_flight: i + 1 })));
  }
  await cluster.api('PUT', '/v1/queues/newest', {});

  const page = await openPage(browser, cluster.url, { path: 'audit' });
  await page.route('**/v1/audit?*', (route) => route.continue( // so that the log has several pages
    { url: route.request().url().replace('limit=1000', 'limit=250') }));
  await signIn(page, cluster.key);
  await page.getByText(/^The newest 500 of \d+ records\.$/).waitFor();
  const rows = page.locator('tbody tr');
  assert.match(await rows.first().textContent(), /queue=newest/);
  assert.equal(await rows.count(), 500);
  assert.equal(await rows.filter({ hasText: 'queue=oldest' }).count(), 0);
  await page.getByLabel('Find in these records').fill('oldest');
  await rows.filter({ hasText: 'queue=oldest' }).waitFor();
  await page.getByLabel('Find in these records').fill('');
  await page.getByLabel('Kind').selectOption('refusal');
  await rows.filter({ hasText: 'queue=forbidden' }).waitFor();
  assert.equal(await rows.filter({ hasText: 'queue=newest' }).count(), 0);
  assertNoFaults(page);
});
