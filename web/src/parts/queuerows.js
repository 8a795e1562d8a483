// Rows of queues, those with trouble first.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { compact, number, shortInstant } from '../format.js';
import { href } from '../router.js';
import { can } from '../session.js';
import { t } from '../i18n.js';
import { change, inNamespace } from '../api.js';
import { byTrouble, isLate } from '../queues.js';
import { Table } from './table.js';
import { Button, Id, Since, Tag } from './ui.js';
import { attempt, say } from './toast.js';

export function QueueRows({ queues, most = queues.length, refresh }) {
  const rows = byTrouble(queues).slice(0, most);
  const count = (name, tone) => (q) => (q.counts?.[name]
    ? html`<span class=${tone || ''} title=${number(q.counts[name])}>${compact(q.counts[name])}</span>`
    : html`<span class="muted">0</span>`);
  return html`<${Table} caption=${t('nav.queues')} rows=${rows} rowKey=${(q) => q.queue} columns=${[
    { label: t('queue'),
      cell: (q) => html`<${Id} id=${q.queue} to=${href(`queues/${encodeURIComponent(q.queue)}`)} />` },
    { label: t('queue.status'), kind: 'long', cell: (q) => html`<${QueueStatus} queue=${q} />` },
    { label: t('state.scheduled'), kind: 'n', cell: count('scheduled') },
    { label: t('state.ready'), kind: 'n', cell: count('ready') },
    { label: t('state.firing'), kind: 'n', cell: count('firing', 'running') },
    { label: t('state.retrying'), kind: 'n', cell: count('retrying') },
    { label: t('state.dead'), kind: 'n', cell: count('dead', 'trouble') },
    { label: t('due.1m'), kind: 'n', cell: count('due_1m') },
    can('operate') && refresh
      && { label: t('actions'), kind: 'end', cell: (q) => html`<${PauseButton} queue=${q} refresh=${refresh} />` },
  ]} />`;
}

export function QueueStatus({ queue: q }) {
  const c = q.counts;
  return html`<span class="tags">
    ${q.paused && html`<${Tag} tone="warning">${t('queue.paused')}<//>`}
    ${q.window_open === false
      && html`<${Tag}>${q.window_opens_at ? t('queue.opens', { at: shortInstant(Date.parse(q.window_opens_at)) })
      : t('queue.neverOpens')}<//>`}
    ${q.broken && html`<${Tag} tone="trouble">${t('queue.failing', { n: number(q.broken.length) })}<//>`}
    ${c?.oldest_overdue && html`<${Tag} tone=${isLate(q) ? 'trouble' : ''}>
      ${t('queue.oldest')} <${Since} at=${c.oldest_overdue} /><//>`}
    ${!q.paused && q.window_open !== false && !c?.oldest_overdue
      && html`<span class="muted">${q.target ? t('queue.delivers') : t('queue.pulled')}</span>`}
  </span>`;
}

// PauseButton pauses or resumes a queue. The second click of a double click changes nothing.
export function PauseButton({ queue: q, refresh, kind = 'small' }) {
  const [busy, setBusy] = useState(false);
  const path = inNamespace(`/queues/${encodeURIComponent(q.queue)}`);
  const set = async (paused, undo) => {
    await change('POST', `${path}/${paused ? 'pause' : 'resume'}`);
    say(t(paused ? 'queue.nowPaused' : 'queue.resumed', { queue: q.queue }), '', undo);
    refresh();
  };
  const toggle = async (event) => {
    if (event.detail > 1) return;
    setBusy(true);
    await attempt(() => set(!q.paused, () => set(q.paused)));
    setBusy(false);
  };
  return html`<${Button} kind=${kind} icon=${q.paused ? 'play' : 'pause'} busy=${busy} onClick=${toggle}
    aria-label=${t(q.paused ? 'queue.resumeNamed' : 'queue.pauseNamed', { queue: q.queue })}>
      ${t(q.paused ? 'resume' : 'pause')}<//>`;
}
