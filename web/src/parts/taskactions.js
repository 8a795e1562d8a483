// The actions of one task. Each answer is told in the API's own words.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, inNamespace, withQuery } from '../api.js';
import { now } from '../clock.js';
import { city, isoOf, shortInstant, toInput } from '../format.js';
import { can } from '../session.js';
import { t, word } from '../i18n.js';
import { outcomesOf } from './bulk.js';
import { ask, Form, show } from './dialog.js';
import { Button, Field, millis } from './ui.js';
import { say } from './toast.js';

// With small, the buttons are those of a row.
export function TaskActions({ task, refresh, small = false }) {
  const path = inNamespace(`/tasks/${encodeURIComponent(task.id)}`);
  const waits = ['scheduled', 'ready', 'retrying'].includes(task.state);
  const ended = ['delivered', 'dead', 'cancelled'].includes(task.state);
  const named = { id: task.id };
  const size = small ? 'small' : '';
  const fire = () => ask({
    title: t('fire.title', named), text: t('fire.text'), action: t('fire.do'),
    run: async () => {
      const after = await change('POST', `${path}/fire`, {});
      say(t('fire.done', { state: word('state', after.state) }));
      refresh();
    },
  });
  const cancel = () => ask({
    title: t('cancel.title', named), text: t('cancel.text'), words: outcomesOf.cancel,
      action: t('cancel.do'), danger: true,
    run: async () => {
      const { outcome } = await change('DELETE', path);
      say(`${outcome}: ${t(`outcome.${outcome}`)}`);
      refresh();
    },
  });
  const dead = (method, part, name, danger) => () => ask({
    title: t(`${name}.title`, named), text: t(`${name}.text`), action: t(`${name}.do`), danger,
    run: async () => {
      const { count } = await change(method,
        withQuery(inNamespace(`/queues/${encodeURIComponent(task.queue)}/dead${part}`), { id: task.id }));
      say(t(`${name}.done`, { n: count }));
      refresh();
    },
  });
  return html`<div class="side actions">
    ${can('schedule') && waits && html`<${Button} kind=${size} icon="bolt" onClick=${fire}>${t('fire.name')}<//>`}
    ${can('schedule') && ['scheduled', 'ready'].includes(task.state) && !task.attempts
      && html`<${Button} kind=${size} icon="move" onClick=${() => show(Move, { task, path, refresh })}>${t('move.name')}
        <//>`}
    ${can('schedule') && !ended
      && html`<${Button} kind="danger ${size}" icon="cross" onClick=${cancel}>${t('cancel.name')}<//>`}
    ${can('operate') && task.state === 'dead' && html`
      <${Button} kind=${size || 'primary'} icon="again" onClick=${dead('POST', '/replay', 'replay')}>${t('replay.name')}
        <//>
      <${Button} kind="danger ${size}" icon="trash" onClick=${dead('DELETE', '', 'drop', true)}>${t('drop.name')}<//>`}
  </div>`;
}

// Move asks for another instant: a time from now, or a date.
function Move({ task, path, refresh, close }) {
  const [how, setHow] = useState('delay');
  const [delay, setDelay] = useState('1h');
  const [at, setAt] = useState(toInput(Math.max(millis(task.fire_at), now())));
  const run = async () => {
    const body = how === 'delay' ? { delay: delay.trim() } : { fire_at: isoOf(at) };
    const after = await change('PATCH', path, body, { headers: { 'If-Match': `"${task.revision}"` } });
    const undo = async () => {
      await change('PATCH', path, { fire_at: task.fire_at }, { headers: { 'If-Match': `"${after.revision}"` } });
      say(t('move.done', { at: shortInstant(millis(task.fire_at)) }));
      refresh();
    };
    say(t('move.done', { at: shortInstant(millis(after.fire_at)) }), '', undo);
    refresh();
  };
  return html`<${Form} title=${t('move.title', { id: task.id })} action=${t('move.do')} run=${run} close=${close}>
    <p>${t('move.text', { at: shortInstant(millis(task.fire_at)) })}</p>
    <${When} how=${how} setHow=${setHow} delay=${delay} setDelay=${setDelay} at=${at} setAt=${setAt} />
  <//>`;
}

// When is the choice between a time from now and a date.
export function When({ how, setHow, delay, setDelay, at, setAt }) {
  const option = (value) => html`<label>
    <input type="radio" name="when" value=${value} checked=${how === value}
      onChange=${() => setHow(value)} /> ${t(`when.${value}`)}</label>`;
  return html`<fieldset class="when"><legend>${t('when')}</legend>
    <div class="row">${option('delay')}${option('at')}</div>
    ${how === 'delay'
    ? html`<${Field} label=${t('when.delay')} hint=${t('when.delayHint')}>
      ${(tied) => html`<input ...${tied} required value=${delay} onInput=${(e) => setDelay(e.target.value)}
        spellcheck=${false} />`}<//>`
    : html`<${Field} label=${t('when.at')} hint=${t('when.atHint', { zone: city() })}>
      ${(tied) => html`<input ...${tied} type="datetime-local" step="1" required value=${at}
        onInput=${(e) => setAt(e.target.value)} />`}<//>`}
  </fieldset>`;
}
