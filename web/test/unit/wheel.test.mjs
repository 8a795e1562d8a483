import assert from 'node:assert/strict';
import test from 'node:test';
import { ahead, dueSpans, rings, shade, summary } from '../../src/wheelmath.js';

const now = Date.UTC(2026, 10, 21, 10, 0, 0, 500);
const tasksAt = (index, n) => Array.from({ length: 64 }, (_, i) => (i === index ? n : 0));
const iso = (ms) => new Date(ms).toISOString();

function wheelWith(rows, within = {}) {
  return { now: iso(now), waiting: 0, beside: 0, missing_shards: [], rows,
    due_within: { '1s': 0, '10s': 0, '1m': 0, '10m': 0, '1h': 0, ...within } };
}

test('a row fills the sectors of its level', () => {
  const slot = 64 ** 2;
  const from = Math.floor(now / (slot * 64)) * slot * 64;
  const list = rings(wheelWith([{ level: 2, from: iso(from), slot_ms: slot, tasks: tasksAt(5, 7) }]));
  assert.equal(list.length, 7);
  assert.equal(list[2].sectors[5].tasks, 7);
  assert.deepEqual(list[2].sectors[5].spans, [{ from: from + 5 * slot, to: from + 6 * slot, tasks: 7 }]);
  assert.equal(list[1].sectors.reduce((sum, s) => sum + s.tasks, 0), 0);
});

test('two rows of a level add up', () => {
  const slot = 64;
  const from = Math.floor(now / (slot * 64)) * slot * 64;
  const list = rings(wheelWith([
    { level: 1, from: iso(from), slot_ms: slot, tasks: tasksAt(60, 2) },
    { level: 1, from: iso(from + slot * 64), slot_ms: slot, tasks: tasksAt(60, 3) },
  ]));
  assert.equal(list[1].sectors[60].tasks, 5);
  assert.equal(list[1].sectors[60].spans.length, 2);
});

test('the slots of a ring follow each other from the present on', () => {
  const present = Math.floor(now / 64);
  const ring = rings(wheelWith([{ level: 1, from: iso((present - (present % 64)) * 64), slot_ms: 64,
    tasks: tasksAt((present + 3) % 64, 5) }]))[1];
  const slots = ahead(ring, now);
  assert.equal(slots.length, 64);
  assert.deepEqual(slots[0], { tasks: 0, from: present * 64, to: (present + 1) * 64 });
  assert.equal(slots[3].tasks, 5);
  assert.equal(slots[63].from, (present + 63) * 64);
});

test('brightness grows with the logarithm', () => {
  assert.equal(shade(0, 100), 0);
  assert.equal(shade(100, 100), 1);
  assert.ok(shade(10, 1e6) > shade(1, 1e6));
});

test('spans up to an hour are differences of the counts', () => {
  const spans = dueSpans(wheelWith([], { '1s': 1, '10s': 4, '1m': 4, '10m': 10, '1h': 11 }));
  assert.deepEqual(spans.slice(0, 5).map((s) => s.tasks), [1, 3, 0, 6, 1]);
});

test('slots beyond an hour are split at the bounds of spans', () => {
  const day = 86_400_000;
  const spans = dueSpans(wheelWith([{ level: 5, from: iso(now + 23 * 3_600_000), slot_ms: 2 * 3_600_000,
    tasks: tasksAt(0, 100) }]));
  assert.equal(spans.find((s) => s.name === '1d').tasks, 50);
  assert.equal(spans.find((s) => s.name === '7d').tasks, 50);
  const far = dueSpans(wheelWith([{ level: 6, from: iso(now + 4000 * day), slot_ms: day, tasks: tasksAt(0, 3) }]));
  assert.equal(far.at(-1).tasks, 3);
});

test('the table names the fullest slot', () => {
  const [, , row] = summary(rings(wheelWith([{ level: 2, from: iso(now), slot_ms: 4096, tasks: tasksAt(9, 12) }])));
  assert.equal(row.tasks, 12);
  assert.equal(row.used, 1);
  assert.equal(row.fullest.tasks, 12);
});
