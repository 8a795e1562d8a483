// Selected offers calls on the selected rows of a list: asked once, with their number, and told by their outcomes.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { batch, change, inNamespace, withQuery } from '../api.js';
import { milliseconds } from '../format.js';
import { t } from '../i18n.js';
import { outcomesOf } from './bulk.js';
import { Form, show, Words } from './dialog.js';
import { say } from './toast.js';
import { Button, Field, millis } from './ui.js';

// run makes a call on tasks, and returns the number of tasks by outcome.
async function run(op, tasks, moveMs) {
  if (op === 'replay' || op === 'purge') return runDead(op, tasks);
  const lines = tasks.map(({ id, fire_at: at, revision }) => (op === 'move'
    ? { op: 'patch', id, fire_at: new Date(millis(at) + moveMs).toISOString(), if_match: revision } : { op, id }));
  const done = { cancel: 'cancelled', move: 'moved', fire: 'fired' }[op];
  const counts = {};
  for (const { status, outcome } of await batch(lines)) {
    const name = outcome || (status < 300 ? done : status === 404 ? 'gone' : 'begun');
    counts[name] = (counts[name] || 0) + 1;
  }
  return counts;
}

// runDead makes a call for each queue of the dead letters.
async function runDead(op, tasks) {
  let done = 0;
  for (const queue of new Set(tasks.map((x) => x.queue))) {
    const ids = tasks.filter((x) => x.queue === queue).map((x) => x.id);
    const path = inNamespace(`/queues/${encodeURIComponent(queue)}/dead${op === 'replay' ? '/replay' : ''}`);
    for (let i = 0; i < ids.length; i += 100) {
      const some = withQuery(path, { id: ids.slice(i, i + 100) });
      const { count } = await change(op === 'replay' ? 'POST' : 'DELETE', some);
      done += count;
    }
  }
  return { [op === 'replay' ? 'replayed' : 'purged']: done,
    ...(done < tasks.length && { not_dead: tasks.length - done }) };
}

export function Selected({ selection, rows, ops, refresh }) {
  const tasks = rows.filter((x) => selection.ids.has(x.id));
  return html`<div class="many"><span>${t('select.count', { n: selection.ids.size })}</span>
    ${ops.map((op) => html`<${Button} kind="small" disabled=${!tasks.length}
      onClick=${() => show(Ask, { op, tasks, selection, refresh })}>${t(`bulk.${op}.name`)}…<//>`)}
    <${Button} kind="small quiet" onClick=${() => selection.set([])}>${t('select.clear')}<//></div>`;
}

function Ask({ op, tasks, selection, refresh, close }) {
  const [by, setBy] = useState('1h');
  const apply = async () => {
    const counts = await run(op, tasks, milliseconds(by.trim()));
    say(Object.entries(counts).map(([name, n]) => `${name}: ${n}`).join(', '));
    selection.set([]);
    refresh();
  };
  return html`<${Form} title=${t(`bulk.${op}.title`)} action=${t(`bulk.${op}.do`, { n: tasks.length })}
    danger=${op === 'cancel' || op === 'purge'} run=${apply} close=${close}>
    <p>${t(`bulk.${op}.text`)}</p>
    ${op === 'move' && html`<${Field} label=${t('bulk.move.by')} hint=${t('bulk.move.hint')}>
      ${(tied) => html`<input ...${tied} required pattern="-?(\\d+(\\.\\d+)?(ms|s|m|h|d))+" value=${by}
        onInput=${(e) => setBy(e.target.value)} spellcheck=${false} />`}<//>`}
    <${Words} of=${outcomesOf[op]} />
  <//>`;
}
