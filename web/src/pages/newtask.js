// The form for a new task.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, inNamespace, Problem } from '../api.js';
import { now } from '../clock.js';
import { fromInput, toInput } from '../format.js';
import { go, href } from '../router.js';
import { curl } from '../curl.js';
import { taskOf } from '../taskform.js';
import { t } from '../i18n.js';
import { When } from '../parts/taskactions.js';
import { say } from '../parts/toast.js';
import { Button, Card, Command, Field, Refused } from '../parts/ui.js';

const start = () => ({ id: '', queue: '', how: 'delay', delay: '10s', at: toInput(now() + 3600e3),
  payload: '{"hello": "world"}', url: '', labels: '', attempts: '', expires: '', group: '', priority: '', once: true });

export function NewTask() {
  const [form, setForm] = useState(start);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const set = (name) => (value) => setForm((f) => ({ ...f, [name]: value }));
  const { body, wrong } = requestOf(form);
  const faulty = Object.keys(wrong).length > 0;
  const path = form.id ? `/tasks/${encodeURIComponent(form.id.trim())}` : '/tasks';
  const submit = async (event) => {
    event.preventDefault();
    if (faulty) return;
    setBusy(true);
    setProblem(null);
    try {
      const headers = form.id && form.once ? { 'If-None-Match': '*' } : {};
      const task = await change(form.id ? 'PUT' : 'POST', inNamespace(path), body, { headers });
      say(t('task.created', { id: task.id }));
      go(href(`tasks/${encodeURIComponent(task.id)}`));
    } catch (err) {
      if (!(err instanceof Problem)) throw err;
      setProblem(err);
      setBusy(false);
    }
  };
  const text = (name, label,
    more = {}) => html`<${Field} label=${t(label)} hint=${more.hint}
      error=${wrong[name] || (problem?.field === more.field ? problem?.detail : '')}>
    ${(tied) => html`<input ...${tied} ...${more.attributes} value=${form[name]}
      onInput=${(e) => set(name)(e.target.value)} autocomplete="off" spellcheck=${false} />`}<//>`;
  return html`
    <header class="page"><div><p class="crumb"><a href=${href('tasks')}>${t('nav.tasks')}</a></p><h1>${t('task.new')}
      </h1></div></header>
    <form class="columns" onSubmit=${submit}>
      <${Card} title=${t('newtask.what')}>
        <div class="fields">
          ${text('id', 'newtask.id', { hint: t('newtask.idHint'), field: 'id' })}
          ${form.id && html`<label class="check">
            <input type="checkbox" checked=${form.once}
              onChange=${(e) => set('once')(e.target.checked)} /> ${t('newtask.once')}</label>`}
          <${When} how=${form.how} setHow=${set('how')} delay=${form.delay} setDelay=${set('delay')} at=${form.at}
            setAt=${set('at')} />
          ${text('queue', 'queue',
            { hint: t('newtask.queueHint'), field: 'queue', attributes: { placeholder: 'default' } })}
          <${Field} label=${t('task.payload')} error=${wrong.payload}>
            ${(tied) => html`<textarea ...${tied} rows="6" spellcheck=${false} value=${form.payload}
              onInput=${(e) => set('payload')(e.target.value)}></textarea>`}<//>
          ${text('url', 'newtask.url',
            { hint: t('newtask.urlHint'), field: 'target.url',
              attributes: { type: 'url', placeholder: 'https://shop.example/close' } })}
          ${text('labels', 'labels', { hint: t('filter.labelHint'), field: 'labels' })}
          <details><summary>${t('newtask.more')}</summary><div class="fields">
            ${text('attempts', 'newtask.attempts',
              { field: 'retry.max_attempts', attributes: { type: 'number', min: 1, max: 1000 } })}
            ${text('expires', 'task.expires', { hint: t('newtask.expiresHint'), field: 'expires_after' })}
            ${text('group', 'task.group', { field: 'group' })}
            ${text('priority', 'task.priority',
              { hint: t('newtask.priorityHint'), field: 'priority', attributes: { type: 'number', min: 1, max: 5 } })}
          </div></details>
        </div>
        <${Refused} problem=${problem} />
        <div class="row end"><${Button} type="submit" kind="primary" busy=${busy} disabled=${faulty}>${t('newtask.do')}
          <//></div>
      <//>
      <${Card} title=${t('task.same')}><${Command} text=${curl(form.id ? 'PUT' : 'POST', path, body)} /><//>
    </form>`;
}

// requestOf returns the body of the call, and the faults of the form's fields.
function requestOf(form) {
  const { task, wrong } = taskOf(form);
  const body = { ...(form.how === 'delay' ? { delay: form.delay.trim() } : { fire_at: instantOf(form.at) }), ...task };
  if (form.attempts) body.retry = { max_attempts: Number(form.attempts) };
  if (form.expires) body.expires_after = form.expires.trim();
  if (form.group) body.group = form.group.trim();
  if (form.priority) body.priority = Number(form.priority);
  if (wrong.labels) wrong.labels = t('labels.wrong', { part: wrong.labels });
  return { body, wrong };
}

function instantOf(text) {
  const ms = fromInput(text);
  return Number.isFinite(ms) && ms !== null ? new Date(ms).toISOString() : '';
}
