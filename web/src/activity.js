// Figures from GET /v1/activity.
import { duration } from './format.js';

const fields = ['scheduled', 'fired', 'delivered', 'failed', 'dead', 'cancelled', 'skipped'];

// stepsOf returns one step after another without gaps, up to the last complete one. The API leaves out steps without an
// event.
export function stepsOf(activity, nowMs) {
  const step = activity.step_ms;
  const classes = activity.late_within_ms.length + 1;
  const last = Math.floor(nowMs / step) * step - step;
  const count = Math.round((15 * 60_000) / step);
  const known = new Map(activity.steps.map((s) => [Date.parse(s.at), s]));
  return Array.from({ length: count }, (_, i) => {
    const at = last - (count - 1 - i) * step;
    const s = known.get(at);
    const byClass = (counts) => Array.from({ length: classes }, (_none, k) => counts?.[k] || 0);
    return { at, late: byClass(s?.late), held: byClass(s?.held), ...Object.fromEntries(fields.map((f) => [f, s?.[f] || 0])) };
  });
}

// rate returns a field's events a second in each step.
export function rate(steps, field, stepMs) {
  return steps.map((s) => (s[field] * 1000) / stepMs);
}

// recent returns a field's events a second over the last steps.
export function recent(steps, field, stepMs, count = 2) {
  const part = steps.slice(-count);
  return (part.reduce((sum, s) => sum + s[field], 0) * 1000) / (stepMs * part.length || 1);
}

// quantile returns the upper bound in milliseconds of the class that has the q-th part of all attempts; Infinity for
// the last class, null without attempts. kind is late, or held for attempts whose tasks had waited for a limit, a pause,
// a window, a receiver or a consumer.
export function quantile(steps, bounds, q, kind = 'late') {
  const sums = [...bounds, Infinity].map((_, i) => steps.reduce((sum, s) => sum + s[kind][i], 0));
  const all = sums.reduce((a, b) => a + b, 0);
  if (!all) return null;
  let seen = 0;
  for (let i = 0; i < sums.length; i++) {
    seen += sums[i];
    if (seen >= q * all) return i < bounds.length ? bounds[i] : Infinity;
  }
  return Infinity;
}

// classNames names the classes of lateness.
export function classNames(bounds) {
  return [...bounds.map((ms) => `≤ ${duration(ms)}`), `> ${duration(bounds.at(-1))}`];
}
