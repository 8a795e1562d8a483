// The form of a schedule, and the calls that it makes.
import { writeLabels } from './labels.js';
import { taskOf } from './taskform.js';

// formOf fills the form from a schedule, or for a new one.
export function formOf(known, zone) {
  const r = known?.repeat || {};
  const task = known?.task || {};
  return {
    id: known?.id || '',
    kind: r.every ? 'every' : 'cron',
    cron: r.cron ? r.cron.join('\n') : known ? '' : '0 9 * * MON-FRI',
    every: r.every || '15m',
    zone: r.time_zone || zone,
    calendar: r.calendar || '',
    except: (r.except || []).join('\n'),
    jitter: r.jitter || '',
    count: r.count ? String(r.count) : '',
    overlap: known?.overlap || 'skip',
    misfire: known?.misfire || 'latest',
    note: known?.note || '',
    queue: task.queue && task.queue !== 'default' ? task.queue : '',
    url: task.target?.url || '',
    payload: task.payload === undefined ? '' : JSON.stringify(task.payload, null, 2),
    labels: writeLabels(Object.entries(task.labels || {})),
  };
}

const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);

// repeatOf returns the rule of the form.
export function repeatOf(form) {
  const repeat = form.kind === 'cron' ? { cron: linesOf(form.cron) } : { every: form.every.trim() };
  if (form.zone.trim()) repeat.time_zone = form.zone.trim();
  if (form.calendar) repeat.calendar = form.calendar;
  if (linesOf(form.except).length) repeat.except = linesOf(form.except);
  if (form.jitter.trim()) repeat.jitter = form.jitter.trim();
  if (form.count) repeat.count = Number(form.count);
  return repeat;
}

// bodyOf returns the body of the call that saves the form, and the faults of its fields. The body of a change is a
// patch: fields that the form does not show stay the same, and null restores a default.
export function bodyOf(form, known) {
  const { task, wrong } = taskOf(form);
  const body = { repeat: repeatOf(form), overlap: form.overlap, misfire: form.misfire, note: form.note, task };
  return { body: known ? patchOf(body, known, form) : body, wrong };
}

// patchOf adds null for each field that was removed in the form. A payload and labels whose text is the same are left
// out, so that the payload keeps its bytes.
function patchOf(body, known, form) {
  const removed = (names, now,
    before) => Object.fromEntries(names.filter((n) => before?.[n] !== undefined
      && now[n] === undefined).map((n) => [n, null]));
  const repeat = { ...body.repeat,
    ...removed(['cron', 'every', 'calendar', 'except', 'jitter', 'count', 'time_zone'], body.repeat, known.repeat) };
  const gone = removed(['queue', 'target', 'labels', 'payload'], body.task, known.task);
  const labels = body.task.labels
    && { ...removed(Object.keys(known.task.labels || {}), body.task.labels, known.task.labels), ...body.task.labels };
  const task = { ...body.task, ...(labels && { labels }), ...gone };
  const before = formOf(known, '');
  for (const name of ['payload', 'labels']) if (form[name] === before[name]) delete task[name];
  return { ...body, repeat, task };
}
