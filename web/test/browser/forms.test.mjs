// The forms: typed text reaches the cluster unchanged, and fields without a change stay as they are.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { missing, startCluster } from './cluster.mjs';
import { assertNoFaults, launch, openPage } from './browser.mjs';

let cluster;
let browser;
let page;

before(async () => {
  [cluster, browser] = await Promise.all([startCluster({ nodes: 1 }), launch()]);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
});
beforeEach(async () => {
  page = await openPage(browser, cluster.url, { path: 'keys' });
  await page.getByRole('navigation').first().waitFor();
});
afterEach(async () => {
  assertNoFaults(page);
  await page.context().close();
});

const button = (name, within = page) => within.getByRole('button', { name, exact: true });
const spaced = 'customer="big one"';

// editNote changes the note of a schedule in its form.
async function editNote(id, note) {
  await page.visit(`schedules/${id}/edit`);
  await page.getByLabel('Note').fill(note);
  await button('Save').click();
  await page.waitForURL(`**/ui/schedules/${id}`);
}

// unedited returns the fields of a schedule beside its note and its revision.
function unedited(text) {
  const { note: _, revision: __, ...rest } = JSON.parse(text);
  return rest;
}

test('a new note of a schedule leaves the rest of it, and the bytes of its payload', async () => {
  const payload = '{"n": 12345678901234567890, "x": 1.0}';
  const labels = '{"customer":"big one","team:eu":"x"}';
  for (const repeat of ['{"cron":["0 9 * * *"]}', '{"every":"1h"}']) {
    await cluster.api('PUT', '/v1/schedules/exact',
      `{"repeat":${repeat},"note":"old","task":{"labels":${labels},"payload":${payload}}}`);
    const old = await cluster.text('/v1/schedules/exact');
    await editNote('exact', 'new');
    const changed = await cluster.text('/v1/schedules/exact');
    assert.equal(JSON.parse(changed).note, 'new');
    assert.ok(changed.includes(payload), changed);
    assert.deepEqual(JSON.parse(changed).task.labels, JSON.parse(labels));
    assert.deepEqual(unedited(changed), unedited(old));
  }
});

test('a schedule that was changed meanwhile is not overwritten, and the typed text stays', async () => {
  await cluster.api('PUT', '/v1/schedules/shared', { repeat: { every: '1h' }, note: 'first' });
  await page.visit('schedules/shared/edit');
  await page.getByLabel('Note').fill('mine');
  await cluster.api('PATCH', '/v1/schedules/shared', { note: 'theirs' });
  const renewed = page.waitForResponse((response) => response.url().endsWith('/schedules/shared'));
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await (await renewed).finished();
  const answered = page.waitForResponse((response) => response.request().method() === 'PATCH');
  await button('Save').click();
  assert.equal((await answered).status(), 412);
  await page.getByRole('alert').getByText('It exists already, or has changed since').waitFor();
  assert.equal(await page.getByLabel('Note').inputValue(), 'mine');
  assert.equal((await cluster.api('GET', '/v1/schedules/shared')).note, 'theirs');
});

test('faulty labels of a new task are shown at the field and not sent', async () => {
  await page.visit('new/task');
  await page.getByLabel('Id', { exact: true }).fill('labelled');
  const labels = page.getByLabel('Labels');
  await labels.fill('tenant acme');
  await page.locator('.field', { has: labels }).locator('.error').getByText('tenant acme').waitFor();
  assert.ok(await button('Schedule').isDisabled());
  await labels.press('Enter');
  assert.ok(await missing(cluster.api('GET', '/v1/tasks/labelled')));
  await labels.fill(`${spaced} tenant=acme`);
  await button('Schedule').click();
  await page.waitForURL('**/ui/tasks/labelled');
  const task = await cluster.api('GET', '/v1/tasks/labelled');
  assert.deepEqual(task.labels, { customer: 'big one', tenant: 'acme' });
});

test('a filter by a label with a space is typed, and kept by the form of the filters', async () => {
  await cluster.api('PUT', '/v1/tasks/spaced', { delay: '1h', labels: { customer: 'big one' } });
  await cluster.api('PUT', '/v1/tasks/other', { delay: '1h', labels: { customer: 'big' } });
  const dialog = page.getByRole('dialog');
  const label = dialog.getByLabel('label', { exact: true });
  await page.visit('tasks');
  await button('More filters').click();
  await label.fill(`${spaced} oops`);
  await button('Apply', dialog).click();
  await dialog.getByRole('alert').getByText('oops').waitFor();
  await label.fill(spaced);
  await button('Apply', dialog).click();
  await page.waitForURL('**/ui/tasks?label=customer%3Dbig+one');
  await page.getByRole('link', { name: 'spaced', exact: true }).waitFor();
  await button('More filters').click();
  assert.equal(await label.inputValue(), spaced);
  await dialog.getByLabel('scheduled').check();
  await button('Apply', dialog).click();
  await page.waitForURL('**/ui/tasks?label=customer%3Dbig+one&state=scheduled');
  await page.getByRole('link', { name: 'spaced', exact: true }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'other', exact: true }).count(), 0);

  await page.visit('tasks');
  await page.getByRole('searchbox', { name: 'Filter' }).fill(spaced);
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/tasks?label=customer%3Dbig+one');
});
