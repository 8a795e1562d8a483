// Every action of the page, with its effect on the cluster.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { eventually, missing, startCluster, startReceiver } from './cluster.mjs';
import { assertNoFaults, inspect, launch, openPage, picture } from './browser.mjs';
import { seed } from './seed.mjs';

let cluster;
let receiver;
let browser;
let page;

before(async () => {
  [cluster, receiver, browser] = await Promise.all([startCluster(), startReceiver(), launch()]);
  await seed(cluster, receiver);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
  await receiver?.stop();
});
beforeEach(async () => {
  page = await openPage(browser, cluster.url);
  await page.getByRole('navigation').first().waitFor();
});
afterEach(async () => {
  assertNoFaults(page);
  await page.context().close();
});

const button = (name, within = page) => within.getByRole('button', { name, exact: true });
const dialog = () => page.getByRole('dialog');
const toast = (text) => page.locator('.toasts').getByText(text).first().waitFor();
const undo = (text) => page.locator('.toasts p', { hasText: text }).last().getByRole('button', { name: 'Undo' })
  .click();
const state = (id) => cluster.api('GET', `/v1/tasks/${id}`);

test('a task is created, moved and cancelled', async () => {
  await page.visit('new/task');
  await page.getByLabel('Id', { exact: true }).fill('made-here');
  await page.getByLabel('In', { exact: true }).last().fill('2h');
  await page.getByLabel('Payload').fill('{"n": 12345678901234567890}');
  await button('Schedule').click();
  await page.waitForURL('**/ui/tasks/made-here');
  await page.getByText('waits until').waitFor();

  await button('Move').click();
  await inspect(page, 'the dialog of a move');
  await dialog().getByLabel('In', { exact: true }).last().fill('5h');
  await button('Move', dialog()).click();
  await toast(/It is due at/);
  const due = async () => Math.round((Date.parse((await state('made-here')).fire_at) - Date.now()) / 3600e3);
  assert.equal(await due(), 5);
  await undo(/It is due at/);
  await eventually('it is due as before', async () => await due() === 2);

  await button('Cancel').click();
  for (const outcome of ['cancelled', 'stopped', 'already_fired']) await dialog().getByText(outcome,
    { exact: true }).waitFor();
  await button('Cancel the task', dialog()).click();
  await toast(/^cancelled:/);
  assert.equal((await state('made-here')).outcome, 'cancelled');
  await page.getByText('was cancelled before any attempt').waitFor();
});

test('a task fires now', async () => {
  await page.visit('tasks/order-1200');
  await button('Fire now').click();
  await button('Fire now', dialog()).click();
  await eventually('it ended',
    async () => ['delivered', 'ready', 'firing'].includes((await state('order-1200')).state));
});

test('the life of a task names the node of an attempt', async () => {
  await cluster.api('PUT', '/v1/tasks/named', { delay: '1ms', target: { url: receiver.url } });
  await eventually('it is delivered', async () => (await state('named')).state === 'delivered');
  await page.visit('tasks/named');
  await page.getByText(/by node-[123]$/).first().waitFor();
});

test('a delivered task leads to its follow-up, and back', async () => {
  await cluster.api('PUT', '/v1/tasks/first',
    { delay: '1ms', target: { url: receiver.url }, on_delivered: { queue: 'reports', delay: '1h' } });
  await eventually('it is delivered', async () => (await state('first')).state === 'delivered');
  await page.visit('tasks/first');
  await page.getByText('to the queue reports · after 1h').waitFor();
  await page.getByRole('link', { name: 'first@delivered' }).click();
  await page.waitForURL('**/ui/tasks/first%40delivered');
  await page.getByRole('link', { name: 'first', exact: true }).click();
  await page.waitForURL('**/ui/tasks/first');
});

test('a dead letter is replayed, another one dropped', async () => {
  await page.visit('tasks/lost-0');
  await button('Replay').click();
  await button('Replay', dialog()).click();
  await toast('1 dead letter replayed.');
  await page.visit('tasks/lost-1');
  await button('Drop').click();
  await button('Drop', dialog()).click();
  await toast('1 dead letter dropped.');
});

test('the search leads to tasks, with chips and an address', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('order-10 tenant=acme');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/tasks?*');
  assert.match(page.url(), /prefix=order-10/);
  assert.match(page.url(), /label=tenant%3Dacme/);
  await page.locator('.chip').nth(1).waitFor();
  await page.getByRole('button', { name: /Remove the filter label/ }).click();
  await page.waitForURL((url) => !url.search.includes('label'));
});

test('the search goes on after Enter, and names a misspelt field', async () => {
  const search = page.getByRole('searchbox', { name: /^Search tasks/ });
  for (const text of ['order-10', 'now-']) {
    await page.keyboard.press('/');
    await page.keyboard.press('/');
    assert.equal(await search.inputValue(), '');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/ui/tasks?prefix=${text}`);
  }
  await page.keyboard.press('/');
  await page.keyboard.type('stae:dead');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('Unknown: stae:dead').waitFor();
  await inspect(page, 'a misspelt search');
  await button('state:dead').click();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/tasks?state=dead');
});

test('rows are selected by keys, and cancelled', async () => {
  await schedule('pick', 3, { delay: '1h' });
  await page.visit('tasks?prefix=pick-');
  await page.locator('tbody tr').nth(2).waitFor();
  for (const key of ['j', 'x', 'j', 'j', 'k', 'x']) await page.keyboard.press(key);
  await page.getByText('2 selected:').waitFor();
  const chosen = await page.locator('tbody tr', { has: page.getByRole('checkbox', { checked: true }) }).locator('th')
    .allTextContents();
  assert.equal(chosen.length, 2);
  await inspect(page, 'selected rows');
  await button('Cancel…').click();
  await button('Cancel 2 tasks', dialog()).click();
  await toast('cancelled: 2');
  for (const id of ['pick-0', 'pick-1', 'pick-2']) {
    assert.equal((await state(id)).state, chosen.includes(id) ? 'cancelled' : 'scheduled', id);
  }
  await page.visit('tasks?prefix=nothing');
  await page.getByText('Nothing matches').waitFor();
  for (const name of ['Cancel…', 'Move…', 'Fire now…']) assert.ok(await button(name).isDisabled(), name);
});

test('selected tasks are moved, and selected dead letters dropped', async () => {
  const tasks = await schedule('shift', 2, { delay: '1h' });
  await page.visit('tasks?prefix=shift-');
  await page.getByRole('checkbox', { name: 'Select all rows' }).check();
  await button('Move…').click();
  await dialog().getByLabel('By', { exact: true }).fill('30m');
  await button('Move 2 tasks', dialog()).click();
  await toast('moved: 2');
  for (const { id, fire_at: before } of tasks) {
    assert.equal(Date.parse((await state(id)).fire_at) - Date.parse(before), 30 * 60e3, id);
  }
  await cluster.api('PUT', '/v1/queues/lostbox', { target: { url: `${receiver.url}/bad` }, retry: { max_attempts: 1 } });
  for (const [id, due] of [['box-old', '2020-01-01T00:00:00Z'], ['box-new', '2024-01-01T00:00:00Z']]) {
    await cluster.api('PUT', `/v1/tasks/${id}`, { queue: 'lostbox', fire_at: due });
  }
  const dead = async () => (await cluster.api('GET', '/v1/queues/lostbox')).counts.dead;
  await eventually('two dead letters', async () => await dead() === 2);
  const { tasks: order } = await cluster.api('GET', '/v1/tasks?queue=lostbox&state=dead&order=due');
  await page.visit('dead?queue=lostbox');
  await page.getByText('The oldest first').waitFor();
  assert.deepEqual(await page.locator('tbody th').allTextContents(), order.map((x) => x.id));
  await page.getByRole('checkbox', { name: 'Select box-old' }).check();
  await button('Drop…').click();
  await button('Drop 1 dead letter', dialog()).click();
  await toast('purged: 1');
  assert.equal(await dead(), 1);
});

test('lists begin with what comes next', async () => {
  await cluster.api('PUT', '/v1/queues/lane', {});
  for (const [id, delay] of [['lane-a', '3h'], ['lane-b', '1h'], ['lane-c', '2h']]) {
    await cluster.api('PUT', `/v1/tasks/${id}`, { queue: 'lane', delay });
  }
  const ids = () => page.locator('tbody th').allTextContents();
  await page.visit('tasks?queue=lane');
  await page.locator('tbody tr').nth(2).waitFor();
  assert.deepEqual(await ids(), ['lane-b', 'lane-c', 'lane-a']);
  await page.getByRole('columnheader', { name: 'Id' }).getByRole('link').click();
  await page.waitForURL(/order=id/);
  await page.getByText('In the order of the cluster').waitFor();
  const nextOf = (card) => card.locator('.runs a').allTextContents();
  const card = page.locator('.card', { has: page.getByRole('heading', { name: 'Next tasks' }) });
  await page.visit('queues/lane');
  await card.locator('li').nth(2).waitFor();
  assert.deepEqual(await nextOf(card), ['lane-b', 'lane-c', 'lane-a']);
  await page.visit('');
  await card.locator('li').nth(9).waitFor();
  await page.visit('schedules');
  await page.locator('tbody tr').nth(2).waitFor();
  const { schedules } = await cluster.api('GET', '/v1/schedules?order=due');
  const known = schedules.map((s) => s.id).filter((id) => id !== 'heartbeat'); // whose instant passes
  assert.deepEqual((await ids()).filter((id) => id !== 'heartbeat'), known);
});

test('the bar of pages shows on a phone that it goes on', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  const bar = page.locator('nav.pages.more');
  await bar.waitFor();
  await bar.evaluate((e) => e.scrollTo(e.scrollWidth, 0));
  await page.locator('nav.pages.less:not(.more)').waitFor();
});

test('many tasks are cancelled, and the operation is shown', async () => {
  await page.visit('tasks?prefix=order-11');
  await button('Cancel…').click();
  await dialog().getByText('tasks match now').waitFor();
  await inspect(page, 'the dialog of a bulk operation');
  await dialog().getByRole('button', { name: /^Cancel \d+ tasks$/ }).click();
  await page.waitForURL('**/ui/operations/**');
  await page.locator('.sentence').getByText('done', { exact: true }).waitFor();
  await page.locator('.outcomes').getByText('cancelled', { exact: true }).waitFor();
  assert.equal((await state('order-1150')).state, 'cancelled');
});

test('dead letters are replayed in bulk', async () => {
  await page.visit('dead?queue=broken');
  await button('Replay…').click();
  await dialog().getByRole('button', { name: /^Replay \d+ dead letters?$/ }).click();
  await page.waitForURL('**/ui/operations/**');
  await page.locator('.outcomes').getByText('replayed', { exact: true }).waitFor();
});

// carryOut answers yes to a bulk operation, and waits until the page of the operation shows its end and an outcome.
async function carryOut(name, outcome) {
  await button(name, dialog()).click();
  await page.waitForURL('**/ui/operations/**');
  await page.locator('.sentence').getByText('done', { exact: true }).waitFor();
  await page.locator('.outcomes').getByText(outcome, { exact: true }).waitFor();
}

// schedule schedules n tasks with a common beginning of their ids, and returns them.
const schedule = (prefix, n, fields) => Promise.all(Array.from({ length: n },
  (_, i) => cluster.api('PUT', `/v1/tasks/${prefix}-${i}`, fields)));

test('many tasks are moved by a length of time', async () => {
  const tasks = await schedule('parcel', 3, { delay: '1h' });
  await page.visit('tasks?prefix=parcel-');
  await button('Move…').click();
  await dialog().getByLabel('By', { exact: true }).fill('90m');
  await carryOut('Move 3 tasks', 'moved');
  for (const { id, fire_at: before } of tasks) {
    assert.equal(Date.parse((await state(id)).fire_at) - Date.parse(before), 90 * 60e3, id);
  }
});

test('many tasks fire now', async () => {
  const tasks = await schedule('alarm', 3, { delay: '1h', target: { url: `${receiver.url}/ok` } });
  await page.visit('tasks?prefix=alarm-');
  await button('Fire now…').click();
  await carryOut('Fire 3 tasks', 'fired');
  for (const { id } of tasks) {
    await eventually(`${id} is delivered`, async () => (await state(id)).state === 'delivered');
  }
});

test('dead letters are dropped in bulk', async () => {
  await cluster.api('PUT', '/v1/queues/hopeless',
    { target: { url: `${receiver.url}/bad` }, retry: { max_attempts: 1 } });
  await schedule('hopeless', 3, { queue: 'hopeless', delay: '0s' });
  const dead = async () => (await cluster.api('GET', '/v1/queues/hopeless')).counts.dead;
  await eventually('three dead letters', async () => await dead() === 3);
  await page.visit('dead?queue=hopeless');
  await button('Drop…').click();
  await carryOut('Drop 3 dead letters', 'purged');
  assert.equal(await dead(), 0);
  assert.ok(await missing(state('hopeless-0')));
});

test('a bulk operation is stopped, and the tasks that it has not reached stay', async () => {
  await schedule('slow', 40, { delay: '10h' });
  await page.visit('tasks?prefix=slow-');
  await button('Cancel…').click();
  await dialog().getByLabel('Max per second').fill('1');
  await button('Cancel 40 tasks', dialog()).click();
  await page.waitForURL('**/ui/operations/**');
  const path = `/v1/operations/${new URL(page.url()).pathname.split('/').pop()}`;
  await button('Stop').click();
  await button('Stop it', dialog()).click();
  await toast('It is being stopped.');
  await page.locator('.sentence').getByText('stopped', { exact: true }).waitFor();
  const { state: end, outcomes } = await cluster.api('GET', path);
  assert.equal(end, 'stopped');
  const { tasks } = await cluster.api('GET', '/v1/tasks?prefix=slow-&state=scheduled&limit=100');
  assert.ok(tasks.length > 20, `${tasks.length} tasks stay`);
  assert.equal(tasks.length, 40 - (outcomes.cancelled || 0));
});

test('a queue is paused, resumed and changed', async () => {
  await page.visit('queues/mails');
  await page.getByRole('button', { name: 'Resume the queue mails' }).click();
  await toast('Resumed: mails');
  await page.getByRole('button', { name: 'Pause the queue mails' }).click();
  await toast('Paused: mails');
  await button('Edit').click();
  await dialog().getByLabel('Max in flight').fill('7');
  await button('Save', dialog()).click();
  await toast('Saved: mails');
  const queue = await cluster.api('GET', '/v1/queues/mails');
  assert.equal(queue.max_in_flight, 7);
  assert.equal(queue.max_per_second, 20);
  assert.equal(queue.paused, true);
  await undo('Saved: mails');
  const limit = async () => (await cluster.api('GET', '/v1/queues/mails')).max_in_flight;
  await eventually('the limit is gone again', async () => await limit() === undefined);
});

test('a double click pauses a queue once', async () => {
  await cluster.api('PUT', '/v1/queues/zz-twice', {});
  await page.visit('queues');
  await page.getByRole('button', { name: 'Pause the queue zz-twice' }).dblclick();
  await page.getByRole('button', { name: 'Resume the queue zz-twice' }).waitFor();
  assert.equal((await cluster.api('GET', '/v1/queues/zz-twice')).paused, true);
  assert.equal(await page.locator('.toasts p').count(), 1);
  await cluster.api('DELETE', '/v1/queues/zz-twice');
});

test('rows of tasks keep their places under the pointer, and new ones wait', async () => {
  for (const n of [2, 3]) await cluster.api('PUT', `/v1/tasks/held-${n}`, { delay: '1h' });
  await page.visit('tasks?prefix=held-');
  const ids = () => page.locator('tbody th').allTextContents();
  await page.getByRole('link', { name: 'held-3' }).hover();
  const before = await ids();
  await cluster.api('PUT', '/v1/tasks/held-1', { delay: '10m' });
  await page.locator('.changed').getByText('1 new row').waitFor();
  assert.deepEqual(await ids(), before);
  await inspect(page, 'a table with new rows');
  await button('Sort now').click();
  await page.getByRole('link', { name: 'held-1' }).waitFor();
  assert.equal((await ids()).length, 3);
});

test('a pause is undone, and the rows of queues keep their places under the pointer', async () => {
  for (const queue of ['zz-1', 'zz-2', 'zz-3']) await cluster.api('PUT', `/v1/queues/${queue}`, {});
  const isPaused = async (queue) => (await cluster.api('GET', `/v1/queues/${queue}`)).paused === true;
  await page.visit('queues');
  const names = () => page.locator('tbody th').allTextContents();
  const pause = page.getByRole('button', { name: 'Pause the queue zz-3' });
  await pause.hover();
  const box = await pause.boundingBox();
  const before = await names();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  await toast('Paused: zz-3');
  await cluster.api('POST', '/v1/queues/zz-2/pause');
  await page.getByRole('button', { name: 'Resume the queue zz-2' }).waitFor();
  assert.deepEqual(await names(), before);
  await inspect(page, 'a message with a button');
  await picture(page, 'queues-undo', false);
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  await toast('Resumed: zz-3');
  await undo('Resumed: zz-3');
  await eventually('zz-3 is paused again', () => isPaused('zz-3'));
  assert.equal(await isPaused('zz-2'), true);
  await page.locator('h1').click();
  await page.waitForFunction(() => document.querySelector('tbody').innerText.indexOf('zz-3')
    < document.querySelector('tbody').innerText.indexOf('zz-1'));
  for (const queue of ['zz-1', 'zz-2', 'zz-3']) await cluster.api('DELETE', `/v1/queues/${queue}`);
});

test('a queue is made, and its policy deleted once it has no task', async () => {
  await page.visit('queues');
  await button('New queue').click();
  await dialog().getByLabel('Queue', { exact: true }).fill('fresh');
  await dialog().getByLabel('URL', { exact: true }).fill(`${receiver.url}/ok`);
  await dialog().getByLabel('Max per second').fill('5');
  await button('Save', dialog()).click();
  await toast('Saved: fresh');
  const made = await cluster.api('GET', '/v1/queues/fresh');
  assert.equal(made.max_per_second, 5);
  assert.equal(made.target.url, `${receiver.url}/ok`);

  await cluster.api('PUT', '/v1/tasks/fresh', { queue: 'fresh', delay: '1h' });
  await page.getByRole('link', { name: 'fresh', exact: true }).click();
  await button('Delete').click();
  await button('Delete', dialog()).click();
  await dialog().getByText('The queue still has tasks').waitFor();
  assert.equal((await cluster.api('GET', '/v1/queues/fresh')).max_per_second, 5);
  await cluster.api('DELETE', '/v1/tasks/fresh');
  await button('Delete', dialog()).click();
  await toast('Deleted: fresh');
  await page.waitForURL('**/ui/queues');
  assert.equal((await cluster.api('GET', '/v1/queues/fresh')).max_per_second, undefined);
});

test('a schedule is made with a preview, run, skipped, paused, changed and deleted', async () => {
  await page.visit('new/schedule');
  await page.getByLabel('Id', { exact: true }).fill('nightly');
  await page.getByLabel('Cron expressions').fill('30 2 * * *');
  await page.getByLabel('Time zone', { exact: true }).fill('Europe/Berlin');
  await page.getByText('at 02:30 every day').waitFor();
  await page.getByText(/02:30:00 \+0[12]:00/).first().waitFor();
  await page.getByLabel('Cron expressions').fill('99 2 * * *');
  await page.locator('.refused').waitFor();
  assert.equal(await page.locator('.runs').count(), 0);
  await page.getByLabel('Cron expressions').fill('30 2 * * *');
  await button('Save').click();
  await page.waitForURL('**/ui/schedules/nightly');

  await button('Run now').click();
  await button('Run now', dialog()).click();
  await toast('Begun: nightly@1');
  await button('Skip the next').click();
  await button('Skip it', dialog()).click();
  await toast('The next occurrence is passed over.');
  await button('Pause').click();
  await dialog().getByLabel('Note').fill('a test');
  await button('Pause', dialog()).click();
  await toast('Paused: nightly');
  assert.equal((await cluster.api('GET', '/v1/schedules/nightly')).note, 'a test');
  await button('Resume').click();
  await button('Resume', dialog()).click();
  await toast('Resumed: nightly');
  await button('Backfill').click();
  await button('Begin them', dialog()).click();
  await toast(/running or waits?\./);

  await page.getByRole('link', { name: 'Edit' }).click();
  await page.getByLabel('Note').fill('changed');
  await button('Save').click();
  await page.waitForURL('**/ui/schedules/nightly');
  assert.equal((await cluster.api('GET', '/v1/schedules/nightly')).note, 'changed');
  await undo('Saved: nightly');
  await eventually('the note is as before',
    async () => (await cluster.api('GET', '/v1/schedules/nightly')).note === 'a test');
  await button('Delete').click();
  await button('Delete the schedule', dialog()).click();
  await page.waitForURL('**/ui/schedules');
});

test('an id that never was is no ended task, and a rule names its zone', async () => {
  await page.visit('tasks/never-was');
  await page.getByText('There is no such task, and no event of one under this id.').waitFor();
  assert.equal(await page.getByText('ended').count(), 0);
  await cluster.api('PUT', '/v1/schedules/universal', { repeat: { cron: ['0 2 * * *'] } });
  await page.visit('schedules?prefix=universal');
  await page.getByText('at 02:00 every day · UTC').waitFor();
});

test('rows have one line, and neither ids nor badges break', async () => {
  const id = `invoice-${'0123456789'.repeat(12)}-close`;
  await cluster.api('PUT', `/v1/tasks/${id}`,
    { delay: '1h', labels: { customer: 'a-customer-with-quite-a-long-name', tenant: 'acme' } });
  const heights = (selector) => page.locator(selector).evaluateAll((all) => all.map((e) => e.offsetHeight));
  await page.visit('tasks?prefix=invoice-');
  const link = page.getByRole('link', { name: id, exact: true });
  await link.waitFor();
  assert.equal(await link.textContent(), id);
  assert.ok((await heights('tbody tr')).every((h) => h <= 44), 'a row has more than one line');
  await page.setViewportSize({ width: 390, height: 844 });
  const lines = [...await heights('tbody .tag'), ...await heights('tbody th a')];
  assert.ok(lines.length >= 3 && lines.every((h) => h <= 24), `heights ${lines}`);
  await cluster.api('PUT', '/v1/tasks/mail-overdue', { queue: 'mails', delay: '0s' });
  await page.visit('queues?prefix=mails');
  await page.getByText(/^overdue by /).waitFor();
});

test('events come as they happen', async () => {
  await page.visit('events?queue=orders');
  await page.getByText('live', { exact: true }).waitFor();
  await cluster.api('PUT', '/v1/tasks/seen-live', { queue: 'orders', delay: '0s' });
  await page.locator('tbody').getByText('seen-live').first().waitFor();
  await button('Hold').click();
  await cluster.api('PUT', '/v1/tasks/seen-later', { queue: 'orders', delay: '0s' });
  await page.getByText(/held; \d+ more/).waitFor();
  await button('Go on').click();
  await page.locator('tbody').getByText('seen-later').first().waitFor();
});

test('events say that the page connects, until the stream begins', async () => {
  let begin;
  const gate = new Promise((done) => {
    begin = done;
  });
  await page.route(/\/v1\/.*events\?/, (route) => gate.then(() => route.continue()));
  await page.visit('events?queue=orders');
  await page.getByText('connecting …').waitFor();
  assert.equal(await page.getByText('live', { exact: true }).count(), 0);
  assert.equal(await page.getByText('Nothing happens').count(), 0);
  begin();
  await page.getByText('live', { exact: true }).waitFor();
});

test('a queue has its rate, its lateness, its failures, and its latest tasks', async () => {
  await cluster.api('PUT', '/v1/queues/flow', { target: { url: `${receiver.url}/bad` }, retry: { max_attempts: 1 } });
  await schedule('flow', 3, { queue: 'flow', delay: '0s' });
  await eventually('three dead letters', async () => (await cluster.api('GET', '/v1/queues/flow')).counts.dead === 3);
  const figure = (name) => page.locator('.figure', { has: page.getByText(name, { exact: true }) }).locator('strong');
  await page.visit('queues/flow');
  await figure('Failed attempts').getByText('3', { exact: true }).waitFor();
  await figure('Fired').getByText('0.1', { exact: true }).waitFor();
  await figure('p99 lateness').getByText(/\d/).waitFor();
  await page.getByText('dead', { exact: true }).last().waitFor();
  await cluster.api('POST', '/v1/queues/flow/pause');
  await cluster.api('PUT', '/v1/tasks/flow-late', { queue: 'flow', delay: '0s' });
  await figure('Longest overdue').getByText(/\d/).waitFor();
  await page.getByText('held by its pause').first().waitFor();
});

test('the lateness of attempts that a limit held stands apart', async () => {
  await cluster.api('PUT', '/v1/queues/tight', { target: { url: `${receiver.url}/ok` }, max_per_second: 1 });
  await schedule('tight', 9, { queue: 'tight', delay: '0s' });
  await eventually('the last one is delivered', async () => (await cluster.api('GET', '/v1/queues/tight'))
    .counts.delivered === 9);
  const { steps, late_within_ms: bounds } = await cluster.api('GET', '/v1/activity?since=1m');
  const beyond = bounds.indexOf(1000) + 1; // classes of more than a second
  const sum = (kind) => steps.flatMap((s) => s[kind].slice(beyond)).reduce((a, b) => a + b, 0);
  assert.ok(sum('held') >= 5, `${sum('held')} held attempts`);
  await page.visit('');
  await page.locator('.figure', { hasText: 'Held back' }).getByText(/^their p99: .* secs late$/).waitFor();
});

test('bars on a logarithmic scale say so, and the waiting tasks have their own trend', async () => {
  await page.visit('');
  await page.getByText('Logarithmic scale.', { exact: true }).waitFor();
  await page.locator('.bars .axis').getByText('10', { exact: true }).last().waitFor();
  await page.getByRole('img', { name: /^Trend of the waiting tasks since/ }).waitFor();
});

test('the wheel follows the keys, and has a table', async () => {
  await page.visit('');
  const dial = page.locator('.wheel canvas[tabindex]');
  await dial.waitFor();
  await dial.focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('#wheel-spot').getByText('a slot of').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.wheel summary').click();
  await page.locator('.wheel table').waitFor();
  for (const span of ['4m', '5h', '2y']) await page.getByRole('rowheader', { name: span, exact: true }).waitFor();
  const waiting = Number((await cluster.api('GET', '/v1/wheel')).waiting);
  assert.ok(waiting > 50, `${waiting} tasks wait`);
});

test('a slot of the wheel opens the tasks that are due in it', async () => {
  await page.visit('');
  const dial = page.locator('.wheel canvas[tabindex]');
  await dial.waitFor();
  const box = await dial.boundingBox();
  assert.ok(box.width <= 280, `the wheel is ${box.width} pixels wide`);
  await dial.click({ position: { x: box.width / 2 + 8, y: 10 } }); // of years, next to the hand
  await page.waitForURL(/tasks\?due_after=.*&due_before=/);
  const query = new URL(page.url()).searchParams;
  const length = Date.parse(query.get('due_before')) - Date.parse(query.get('due_after'));
  assert.equal(length, 64 ** 6);
  await page.visit('');
  await page.setViewportSize({ width: 390, height: 844 });
  await dial.waitFor();
  const strip = await dial.boundingBox();
  assert.ok(strip.height <= 120 && strip.width > 280, JSON.stringify(strip));
});

test('the overview says first whether the cluster is healthy, and what is late and why', async () => {
  await cluster.api('PUT', '/v1/tasks/mail-late', { queue: 'mails', delay: '0s' });
  await page.visit('');
  const line = page.locator('.health-line');
  await line.getByText(/^(healthy|warnings|critical)$/).waitFor();
  await line.getByText(/^belfry /).waitFor();
  const late = page.locator('.card', { has: page.getByRole('heading', { name: 'Overdue, and what holds it' }) });
  await late.getByText('held by its pause').first().waitFor();
  await page.locator('.figure', { hasText: 'Held back' }).locator('strong').getByText(/[1-9]/).waitFor();
  const top = async (locator) => (await locator.boundingBox()).y;
  assert.ok(await top(line) < await top(late) && await top(late) <= await top(page.locator('.turning')));
  assert.equal(await page.locator('.findings').count(), 0);
});

test('a namespace is made and chosen, and a node change is planned', async () => {
  await page.visit('namespaces');
  await button('New namespace').click();
  await dialog().getByLabel('Namespace', { exact: true }).fill('shop');
  await dialog().getByLabel('Waiting tasks').fill('1000');
  await button('Save', dialog()).click();
  await toast('Saved: shop');
  await page.locator('.choice select').first().selectOption('shop');
  await page.waitForURL('**/ui/?ns=shop');
  await page.getByRole('link', { name: 'Tasks', exact: true }).first().click();
  await page.getByText('No task in this namespace').waitFor();
  assert.match(page.url(), /ns=shop/);

  await page.visit('cluster');
  await page.locator('.node').first().getByRole('button', { name: 'Drain…' }).click();
  await dialog().getByText(/Nothing has to move|step|cannot/).first().waitFor();
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'detached' });
});

test('the quotas of a namespace are changed, and it is deleted by its name', async () => {
  await cluster.api('PUT', '/v1/namespaces/old', { max_pending: 100, weight: 2 });
  await cluster.api('PUT', '/v1/namespaces/old/tasks/kept', { delay: '1h' });
  await page.visit('namespaces');
  const card = page.locator('.card').filter({ has: page.getByRole('heading', { name: 'old', exact: true }) });
  await button('Quotas…', card).click();
  await dialog().getByLabel('Waiting tasks').fill('500');
  await dialog().getByLabel('Queues', { exact: true }).fill('3');
  await button('Save', dialog()).click();
  await toast('Saved: old');
  const { max_pending: pending, max_queues: queues, weight } = await cluster.api('GET', '/v1/namespaces/old');
  assert.deepEqual({ pending, queues, weight }, { pending: 500, queues: 3, weight: 2 });

  const choice = page.locator('.choice option', { hasText: /^old$/ });
  assert.equal(await choice.count(), 1);
  await button('Delete…', card).click();
  await dialog().getByText('1 waiting task is deleted').waitFor();
  await dialog().getByLabel('Type old to confirm').fill('ol');
  assert.ok(await button('Delete', dialog()).isDisabled());
  await dialog().getByLabel('Type old to confirm').fill('old');
  await button('Delete', dialog()).click();
  await page.waitForURL('**/ui/operations/**');
  await page.locator('.sentence').getByText('done', { exact: true }).waitFor();
  await eventually('the namespace is gone', () => missing(cluster.api('GET', '/v1/namespaces/old')));
  assert.equal(await choice.count(), 0);
});

test('keys count in the moment in which the page is drawn', async () => {
  await page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector('nav')) return;
      observer.disconnect();
      for (const key of 'gq') document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    }).observe(document, { childList: true, subtree: true });
  });
  await page.visit('');
  await page.waitForURL('**/ui/queues');
});

test('the keyboard alone leads through the pages', async () => {
  for (const [letter, path] of [['t', 'tasks'], ['s', 'schedules'], ['q', 'queues'], ['d', 'dead'], ['e', 'events'],
    ['c', 'cluster'], ['p', 'operations'], ['k', 'keys'], ['n', 'namespaces'], ['a', 'audit'], ['o', '']]) {
    await page.keyboard.press('g');
    await page.keyboard.press(letter);
    await page.waitForURL(`**/ui/${path}`);
  }
  await page.keyboard.press('?');
  await dialog().waitFor();
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'detached' });
});
