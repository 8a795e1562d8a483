// The fields of a task that the form of a task and the form of a schedule have in common.
import { Typed } from './json.js';
import { readLabels } from './labels.js';

// taskOf returns the fields as the API wants them, and the faults of the form's fields: the part of the labels that is
// none, and the reader's error for the payload.
export function taskOf(form) {
  const task = {};
  const wrong = {};
  if (form.queue.trim()) task.queue = form.queue.trim();
  if (form.url.trim()) task.target = { url: form.url.trim() };
  const { pairs, rest } = readLabels(form.labels);
  if (pairs.length) task.labels = Object.fromEntries(pairs);
  if (rest) wrong.labels = rest;
  if (form.payload.trim()) {
    try {
      task.payload = new Typed(form.payload);
    } catch (err) {
      wrong.payload = `JSON: ${err.message}`;
    }
  }
  return { task, wrong };
}
