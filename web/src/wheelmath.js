// The figures of the wheel and of the bars of due times, computed from GET /v1/wheel. No drawing, no clock.

export const slots = 64;
const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const year = 365.25 * day;

// rings merges the rows of the answer into one ring a level, the finest first, and adds the empty rings up to the
// level of years, so that the wheel keeps its shape.
export function rings(wheel) {
  const top = Math.max(6, ...wheel.rows.map((r) => r.level));
  return Array.from({ length: top + 1 }, (_, level) => {
    const ring = { level, slotMs: slots ** level,
      sectors: Array.from({ length: slots }, () => ({ tasks: 0, spans: [] })) };
    for (const row of wheel.rows.filter((r) => r.level === level)) addRow(ring, row);
    return ring;
  });
}

function addRow(ring, row) {
  const from = Date.parse(row.from);
  const first = Math.floor(from / row.slot_ms);
  row.tasks.forEach((tasks, i) => {
    const sector = ring.sectors[sectorAt(first + i)];
    sector.tasks += tasks;
    if (tasks) sector.spans.push({ from: from + i * row.slot_ms, to: from + (i + 1) * row.slot_ms, tasks });
  });
}

const sectorAt = (n) => ((n % slots) + slots) % slots;

// ahead returns the slots of a ring in the order of time, from the present one on, with the span that each stands for.
export function ahead(ring, nowMs) {
  const present = Math.floor(nowMs / ring.slotMs);
  return Array.from({ length: slots }, (_, k) => {
    const { tasks, spans } = ring.sectors[sectorAt(present + k)];
    const from = spans[0]?.from ?? (present + k) * ring.slotMs;
    return { tasks, from, to: from + ring.slotMs };
  });
}

// shade returns the brightness of a count, 0 to 1, on a logarithmic scale up to the largest one.
export function shade(tasks, most) {
  if (!tasks) return 0;
  return 0.25 + 0.75 * (Math.log1p(tasks) / Math.log1p(Math.max(most, 1)));
}

// most returns the largest count of a slot.
export const most = (list) => Math.max(1, ...list.flatMap((ring) => ring.sectors.map((s) => s.tasks)));

// bounds are the ends of the spans in which due times are counted.
const bounds = [second, 10 * second, minute, 10 * minute, hour, 6 * hour, day, 7 * day, 30 * day, year, 10 * year,
  Infinity];
export const spanNames = ['1s', '10s', '1m', '10m', '1h', '6h', '1d', '7d', '30d', '1y', '10y', 'more'];

// dueSpans counts the tasks by the time until they are due. The counts up to an hour are the answer's own; the counts
// beyond come from the rings, whose slots are split in proportion where they cross a bound.
export function dueSpans(wheel) {
  const now = Date.parse(wheel.now);
  const counts = bounds.map(() => 0);
  const within = ['1s', '10s', '1m', '10m', '1h'].map((name) => wheel.due_within[name]);
  within.forEach((n, i) => {
    counts[i] = Math.max(0, n - (i ? within[i - 1] : 0));
  });
  for (const row of wheel.rows) {
    const from = Date.parse(row.from);
    row.tasks.forEach((tasks, i) => tasks && share(counts, tasks, from + i * row.slot_ms - now, row.slot_ms));
  }
  return counts.map((n, i) => ({ name: spanNames[i], tasks: Math.round(n) }));
}

function share(counts, tasks, from, length) {
  for (let i = 5; i < bounds.length; i++) {
    const overlap = Math.min(from + length, bounds[i]) - Math.max(from, bounds[i - 1]);
    if (overlap > 0) counts[i] += (tasks * overlap) / length;
  }
}

// summary lists the rings that hold a task, for the table behind the wheel.
export function summary(list) {
  return list.map((ring) => {
    const held = ring.sectors.filter((s) => s.tasks);
    const spans = held.flatMap((s) => s.spans).sort((a, b) => a.from - b.from);
    const fullest = [...spans].sort((a, b) => b.tasks - a.tasks)[0] || null;
    return { level: ring.level, slotMs: ring.slotMs, tasks: held.reduce((sum, s) => sum + s.tasks, 0),
      used: held.length, fullest, first: spans[0] || null };
  });
}
