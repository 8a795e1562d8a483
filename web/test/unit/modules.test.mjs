import './stub.mjs';
import assert from 'node:assert/strict';
import test from 'node:test';
import { bulkFilter, chipsOf, filtersOf, parseSearch, typoOf, without } from '../../src/search.js';
import { Typed, write } from '../../src/json.js';
import { pairOf, readLabels, writeLabels } from '../../src/labels.js';
import { bodyOf, formOf, repeatOf } from '../../src/scheduleform.js';

const { quantile, recent, stepsOf } = await import('../../src/activity.js');
const { flowOf } = await import('../../src/flow.js');
const { holdOf, isLate } = await import('../../src/queues.js');
const { axisOf } = await import('../../src/parts/bars.js');
const { remember } = await import('../../src/trend.js');
const { describeCron } = await import('../../src/rule.js');
const { bytes, compact, milliseconds } = await import('../../src/format.js');

test('the search box knows states, labels and ids', () => {
  assert.deepEqual(parseSearch('order-10'), { prefix: ['order-10'] });
  assert.deepEqual(parseSearch('dead tenant=acme queue:mails'),
    { state: ['dead'], label: ['tenant=acme'], queue: ['mails'] });
  assert.deepEqual(parseSearch('state:dead state:ready id:a'), { state: ['dead', 'ready'], prefix: ['a'] });
  assert.deepEqual(parseSearch('  '), {});
});

test('the search box names the field or the state that was meant', () => {
  for (const [text, part, instead] of [['stae:dead', 'stae:dead', 'state:dead'], ['a lable:x=y', 'lable:x=y', 'label:x=y'],
    ['qeue:mails', 'qeue:mails', 'queue:mails'], ['state:daed', 'state:daed', 'state:dead'],
    ['state:wating', 'state:wating', 'state:firing']]) assert.deepEqual(typoOf(text), { part, instead }, text);
  for (const text of ['state:dead', 'queue:mails id:x', 'order:1042', '"stae:dead"', 'tenant=acme', '']) {
    assert.equal(typoOf(text), null, text);
  }
});

test('quotes in the search box keep spaces within a word', () => {
  assert.deepEqual(parseSearch('customer="big one" dead'), { label: ['customer=big one'], state: ['dead'] });
  assert.deepEqual(parseSearch('label:"customer=big one" queue:mails'),
    { label: ['customer=big one'], queue: ['mails'] });
  assert.deepEqual(parseSearch('"my order"'), { prefix: ['my order'] });
  assert.deepEqual(parseSearch(String.raw`size="12\" wide \\ deep"`), { label: [String.raw`size=12" wide \ deep`] });
  assert.deepEqual(parseSearch('customer="big one'), { label: ['customer="big'], prefix: ['one'] });
});

test('labels are read as they were written', () => {
  const labels = [['tenant', 'acme'], ['customer', 'big one'], ['team:eu', 'x'], ['a=b', 'c=d'], ['list', '1,2'],
    ['empty', ''], ['quote', 'say "no"'], ['path', 'C:\\tmp'], ['lines', 'one\ntwo\t'], ['名', '值 ☃']];
  for (const label of labels) assert.deepEqual(readLabels(writeLabels([label])), { pairs: [label], rest: '' });
  assert.deepEqual(readLabels(writeLabels(labels)), { pairs: labels, rest: '' });
  assert.equal(writeLabels(labels.slice(0, 3)), 'tenant=acme customer="big one" "team:eu"=x');
  assert.deepEqual(readLabels(' a=1, b:2 '), { pairs: [['a', '1'], ['b', '2']], rest: '' });
  assert.deepEqual(readLabels('url=http://x/?a=b'), { pairs: [['url', 'http://x/?a=b']], rest: '' });
  assert.deepEqual(readLabels(''), { pairs: [], rest: '' });
});

test('the rest of faulty labels begins at the fault', () => {
  for (const [text, pairs, rest] of [
    ['tenant acme', [], 'tenant acme'], ['a=1 tenant acme', [['a', '1']], 'tenant acme'], ['=x', [], '=x'],
    ['a="big one', [], 'a="big one'], ['a=big "one"', [['a', 'big']], '"one"'], ['a="b"c', [], 'a="b"c'],
    [String.raw`a="\x"`, [], String.raw`a="\x"`], ['a=1, oops ,', [['a', '1']], 'oops'],
  ]) assert.deepEqual(readLabels(text), { pairs, rest }, text);
});

test('the name in a filter by label ends at the first colon or equals sign', () => {
  assert.deepEqual(pairOf('tenant=acme'), ['tenant', 'acme']);
  assert.deepEqual(pairOf('tenant:a=b'), ['tenant', 'a=b']);
  assert.deepEqual(pairOf('url=http://x'), ['url', 'http://x']);
  assert.deepEqual(pairOf('text=one\ntwo'), ['text', 'one\ntwo']);
  assert.deepEqual(pairOf('tenant'), ['tenant', '']);
});

test('filters survive the address', () => {
  const filters = filtersOf(new URLSearchParams('state=dead&state=ready&queue=mails&cursor=x'));
  assert.deepEqual(filters, { queue: ['mails'], state: ['dead', 'ready'] });
  assert.equal(chipsOf(filters).length, 3);
  assert.deepEqual(without(filters, { name: 'state', value: 'dead' }), { queue: ['mails'], state: ['ready'] });
  assert.deepEqual(without(filters, { name: 'queue', value: 'mails' }), { state: ['dead', 'ready'] });
  assert.deepEqual(bulkFilter(filters), { queue: 'mails', state: ['dead', 'ready'] });
});

test('a payload is sent as it was typed', () => {
  const typed = '{"n": 12345678901234567890, "text": "$& \\u00e4"}';
  assert.equal(write({ delay: '1s', payload: new Typed(typed) }), `{"delay":"1s","payload":${typed}}`);
  assert.equal(write({ task: { payload: new Typed('[1.0]') } }), '{"task":{"payload":[1.0]}}');
  assert.throws(() => new Typed('{'));
});

test('steps have no gaps, and quantiles are bounds', () => {
  const now = 1_800_000_000_000;
  const bounds = [1, 2, 5];
  const step = { at: new Date(now - 10_000).toISOString(), scheduled: 1, fired: 10, delivered: 9, failed: 1, dead: 0,
    cancelled: 0, skipped: 0, late: [90, 9, 0, 1], held: [0, 0, 4, 0] };
  const steps = stepsOf({ step_ms: 5000, late_within_ms: bounds, steps: [step] }, now);
  assert.equal(steps.length, 180);
  assert.equal(steps.at(-2).fired, 10);
  assert.equal(steps.at(-1).fired, 0);
  assert.equal(recent(steps, 'fired', 5000), 1);
  assert.equal(quantile(steps, bounds, 0.5), 1);
  assert.equal(quantile(steps, bounds, 0.99), 2);
  assert.equal(quantile(steps, bounds, 1), Infinity);
  assert.equal(quantile(steps, bounds, 0.5, 'held'), 5);
  assert.equal(quantile([], bounds, 0.5), null);
});

test('the flow of a queue comes from its events', () => {
  const fired = (lateness) => ({ type: 'fired', lateness });
  const events = [...Array.from({ length: 99 }, () => fired('2ms')), fired('1.5s'),
    { type: 'fired' }, { type: 'failed', task: 'a' }, { type: 'delivered', task: 'b' }, { type: 'expired', task: 'c' }];
  const flow = flowOf(events, 10_000);
  assert.deepEqual([flow.fired.toFixed(1), flow.failures, flow.dead, flow.p99], ['10.1', 1, 1, 2]);
  assert.deepEqual(flow.latest.map((e) => e.task), ['c', 'b', 'a']);
  assert.equal(flowOf([], 60_000).p99, null);
});

test('overdue tasks have one that holds them, or Belfry is late', () => {
  const counts = { ready: 5, firing: 2 };
  const target = { url: 'http://127.0.0.1/' };
  for (const [queue, hold] of [
    [{ target, counts: { ready: 0, firing: 2 }, max_in_flight: 2 }, ''], [{ target, counts, paused: true }, 'pause'],
    [{ target, counts, window_open: false }, 'window'], [{ counts }, 'consumer'],
    [{ target, counts, broken: [{}] }, 'failing'], [{ target, counts, max_in_flight: 2 }, 'inFlight'],
    [{ target, counts, max_in_flight: 3, max_per_second: 1 }, 'perSecond'], [{ target, counts, fifo: true }, 'group'],
    [{ target, counts }, 'receiver'], [{ target, counts: { ready: 5, firing: 0 } }, ''],
  ]) assert.equal(holdOf(queue), hold, JSON.stringify(queue));
  const overdue = { target, counts: { ...counts, oldest_overdue: '2026-01-01T00:00:00Z' } };
  assert.deepEqual([overdue, { ...overdue, broken: [{}] }, { ...overdue, max_per_second: 1 }].map(isLate),
    [true, true, false]);
});

test('axes name powers of ten, and end above the largest count', () => {
  const log = axisOf(2500, true);
  assert.deepEqual(log.ticks, [1, 10, 100, 1000, 10_000]);
  assert.equal(log.scale(10_000), 1);
  assert.equal(log.scale(0), 0);
  assert.ok(log.scale(1) > 0 && log.scale(1) < log.scale(10));
  assert.deepEqual(axisOf(10_000_000, true).ticks, [10, 1000, 100_000, 10_000_000]);
  assert.deepEqual(axisOf(38, false).ticks, [0, 40]);
  assert.equal(axisOf(38, false).scale(20), 0.5);
});

test('a trend has one value each five seconds', () => {
  for (const at of [0, 1000, 5000, 9000, 10_000]) remember('n', at, at);
  assert.deepEqual(remember('n', 7, 12_000).map((p) => p.value), [0, 5000, 10_000]);
});

test('expressions become words', () => {
  for (const [cron, words] of [
    ['0 9 * * MON-FRI', 'at 09:00 on Monday–Friday'], ['30 8,17 * * *', 'at 08:30, 17:30 every day'],
      ['*/15 * * * *', 'every 15 minutes'],
    ['0 0 1 * *', 'at 00:00 on day 1 of the month'], ['@hourly', 'every hour at :00'],
      ['0 0 L * *', 'at 00:00 on the last day of the month'],
    ['5 4 * 1 1-3', '5 4 * 1 1-3'], ['nonsense', 'nonsense'],
  ]) assert.equal(describeCron(cron), words);
});

test('the form of a schedule makes a patch of its fields', () => {
  const known = { id: 'r', repeat: { cron: ['0 9 * * *'], time_zone: 'Europe/Berlin', calendar: 'de' }, misfire: 'all',
    overlap: 'skip', note: 'n',
      task: { queue: 'reports', content_type: 'application/json', labels: { a: '1', b: '2' }, payload: { x: 1 } } };
  const form = formOf(known, 'UTC');
  assert.deepEqual(repeatOf(form), known.repeat);
  const { body } = bodyOf({ ...form, kind: 'every', every: '15m', calendar: '', labels: 'a=1', payload: '',
    queue: '' }, known);
  assert.deepEqual(body.repeat, { every: '15m', time_zone: 'Europe/Berlin', cron: null, calendar: null });
  assert.deepEqual(body.task, { labels: { b: null, a: '1' }, queue: null, payload: null });
});

test('an unchanged payload and unchanged labels are not sent', () => {
  const known = { id: 'r', repeat: { cron: ['0 9 * * *'], time_zone: 'UTC' }, misfire: 'all', overlap: 'skip',
    note: 'n', task: { queue: 'reports', labels: { customer: 'big one', 'team:eu': 'x' }, payload: { x: 1 } } };
  const form = formOf(known, 'UTC');
  assert.equal(form.labels, 'customer="big one" "team:eu"=x');
  const changed = (patch) => bodyOf({ ...form, ...patch }, known);
  assert.deepEqual(changed({ note: 'new' }), { wrong: {}, body: { repeat: known.repeat, overlap: 'skip', misfire: 'all',
    note: 'new', task: { queue: 'reports' } } });
  const typed = '{"x": 1.0}';
  assert.equal(write(changed({ payload: typed }).body.task), `{"queue":"reports","payload":${typed}}`);
  assert.deepEqual(changed({ labels: 'customer="big two"' }).body.task,
    { queue: 'reports', labels: { customer: 'big two', 'team:eu': null } });
  assert.deepEqual(changed({ labels: '', payload: '' }).body.task, { queue: 'reports', labels: null, payload: null });
});

test('a binary payload, which the form does not show, stays', () => {
  const known = { id: 'r', repeat: { every: '1h', time_zone: 'UTC' }, misfire: 'all', overlap: 'skip', note: '',
    task: { queue: 'reports', payload_base64: 'AAEC' } };
  assert.deepEqual(bodyOf({ ...formOf(known, 'UTC'), note: 'new' }, known).body.task, { queue: 'reports' });
});

test('the faults of a schedule are those of its fields', () => {
  const { wrong } = bodyOf({ ...formOf(null, 'UTC'), labels: 'a=1 oops', payload: '{' }, null);
  assert.equal(wrong.labels, 'oops');
  assert.match(wrong.payload, /^JSON: /);
  const { body, wrong: none } = bodyOf({ ...formOf(null, 'UTC'), labels: 'a=1', payload: '[1.0]' }, null);
  assert.deepEqual(none, {});
  assert.equal(write(body.task), '{"labels":{"a":"1"},"payload":[1.0]}');
});

test('formats', () => {
  assert.equal(milliseconds('1h30m'), 5_400_000);
  assert.equal(milliseconds('2.5ms'), 2.5);
  assert.equal(milliseconds('-15m'), -900_000);
  assert.equal(milliseconds('7d'), 604_800_000);
  assert.equal(bytes(1536), '1.5 KiB');
  assert.equal(compact(10_200_000), '10.2M');
  assert.equal(compact(9999), '9,999');
});
