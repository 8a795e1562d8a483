// The form of a queue's policy. It sends a merge patch, so that members outside the form stay.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, inNamespace } from '../api.js';
import { t } from '../i18n.js';
import { Form, show } from './dialog.js';
import { say } from './toast.js';
import { Field } from './ui.js';

// editQueue opens the form, for a queue that exists or, with null, for a new one.
export function editQueue(queue, refresh) {
  show(QueueForm, { queue, refresh });
}

function start(q) {
  return {
    name: q?.queue || '', url: q?.target?.url || '', attempts: String(q?.retry?.max_attempts || ''),
      inFlight: String(q?.max_in_flight || ''),
    perSecond: String(q?.max_per_second || ''), keepDone: q?.keep_done || '', keepDead: q?.keep_dead || '',
    daily: q?.window?.daily.join(', ') || '', days: q?.window?.days || '', zone: q?.window?.time_zone || '',
  };
}

// patchOf returns the fields that changed. An emptied one is null, which restores the default.
export function patchOf(form, q) {
  const before = start(q);
  const patch = {};
  const set = (field, name, value) => {
    if (form[field].trim() !== before[field]) patch[name] = form[field].trim() ? value(form[field].trim()) : null;
  };
  set('url', 'target', (url) => ({ url }));
  set('attempts', 'retry', (n) => ({ max_attempts: Number(n) }));
  if (patch.retry === null && q?.retry) patch.retry = { max_attempts: null };
  set('inFlight', 'max_in_flight', Number);
  set('perSecond', 'max_per_second', Number);
  set('keepDone', 'keep_done', (v) => v);
  set('keepDead', 'keep_dead', (v) => v);
  if (['daily', 'days', 'zone'].some((f) => form[f].trim() !== before[f])) patch.window = windowOf(form, q);
  return patch;
}

// inverse returns the merge patch that takes a patch back.
export function inverse(patch, before) {
  const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
  return Object.fromEntries(Object.entries(patch).map(([name, value]) => {
    const old = before[name] ?? null;
    return [name, isObject(value) && isObject(old) ? inverse(value, old) : old];
  }));
}

function windowOf(form, q) {
  const daily = form.daily.split(/[\s,]+/).filter(Boolean);
  if (!daily.length) return null;
  const window = { ...q?.window, daily, days: form.days.trim(), time_zone: form.zone.trim() };
  return Object.fromEntries(Object.entries(window).filter(([, v]) => v !== ''));
}

function QueueForm({ queue, refresh, close }) {
  const [form, setForm] = useState(() => start(queue));
  const put = (name) => (event) => setForm((f) => ({ ...f, [name]: event.target.value }));
  const patch = patchOf(form, queue);
  const run = async () => {
    const name = queue ? queue.queue : form.name.trim();
    const save = async (body, undo) => {
      await change('PATCH', inNamespace(`/queues/${encodeURIComponent(name)}`), body);
      say(t('queue.saved', { queue: name }), '', undo);
      refresh();
    };
    await save(patch, queue && (() => save(inverse(patch, queue))));
  };
  const text = (name, label, hint, more) => html`<${Field} label=${t(label)} hint=${hint && t(hint)}>
    ${(tied) => html`<input ...${tied} ...${more} value=${form[name]} onInput=${put(name)} autocomplete="off"
      spellcheck=${false} />`}<//>`;
  const changed = Object.keys(patch);
  return html`<${Form} title=${queue ? t('queue.edit', { queue: queue.queue }) : t('queue.new')} action=${t('save')}
    disabled=${Boolean(queue) && !changed.length} run=${run} close=${close}>
    <div class="fields">
      ${!queue && text('name', 'queue', 'queue.nameHint', { required: true })}
      ${text('url', 'newtask.url', 'queue.urlHint', { type: 'url' })}
      <div class="pair">${text('inFlight', 'queue.inFlight', 'queue.inFlightHint', { type: 'number', min: 1 })}
        ${text('perSecond', 'queue.perSecond', 'queue.perSecondHint', { type: 'number', min: 0.001, step: 'any' })}
          </div>
      <div class="pair">${text('attempts', 'newtask.attempts', 'queue.attemptsHint',
        { type: 'number', min: 1, max: 1000 })}${text('keepDone', 'queue.keepDone', 'queue.keepDoneHint')}</div>
      ${text('daily', 'queue.window', 'queue.windowHint', { placeholder: '09:00-20:00' })}
      ${form.daily && html`<div class="pair">${text('days', 'queue.days', '', { placeholder: 'MON-FRI' })}
        ${text('zone', 'schedule.zone', '', { placeholder: 'UTC' })}</div>`}
      ${text('keepDead', 'queue.keepDead', 'queue.keepDeadHint')}
    </div>
    ${queue && changed.length > 0 && html`<p class="muted">${t('queue.changes', { fields: changed.join(', ') })}</p>`}
  <//>`;
}
