// Rows of queues, those with trouble first. While the pointer or the focus is among the rows, each keeps its place, so
// that a click hits the row that it aims at.
import { useRef } from 'preact/hooks';
import { html } from '../html.js';
import { compact, number, shortInstant } from '../format.js';
import { href } from '../router.js';
import { can } from '../session.js';
import { t } from '../i18n.js';
import { change, inNamespace, Problem } from '../api.js';
import { byTrouble, isLate } from '../queues.js';
import { Table } from './table.js';
import { Button, Instant, Tag } from './ui.js';
import { say } from './toast.js';

export function QueueRows({ queues, most = queues.length, refresh }) {
  const [rows, ways] = useHeldOrder(byTrouble(queues).slice(0, most), (q) => q.queue);
  const count = (name, tone) => (q) => (q.counts?.[name]
    ? html`<span class=${tone || ''} title=${number(q.counts[name])}>${compact(q.counts[name])}</span>`
    : html`<span class="muted">0</span>`);
  return html`<div ...${ways}><${Table} caption=${t('nav.queues')} rows=${rows} rowKey=${(q) => q.queue} columns=${[
    { label: t('queue'), cell: (q) => html`<a href=${href(`queues/${encodeURIComponent(q.queue)}`)}>${q.queue}</a>` },
    { label: t('queue.status'), kind: 'long', cell: (q) => html`<${QueueStatus} queue=${q} />` },
    { label: t('state.scheduled'), kind: 'n', cell: count('scheduled') },
    { label: t('state.ready'), kind: 'n', cell: count('ready') },
    { label: t('state.firing'), kind: 'n', cell: count('firing', 'running') },
    { label: t('state.retrying'), kind: 'n', cell: count('retrying') },
    { label: t('state.dead'), kind: 'n', cell: count('dead', 'trouble') },
    { label: t('due.1m'), kind: 'n', cell: count('due_1m') },
    can('operate') && refresh
      && { label: t('actions'), kind: 'end', cell: (q) => html`<${PauseButton} queue=${q} refresh=${refresh} />` },
  ]} /></div>`;
}

// useHeldOrder returns the rows in their order of before while the pointer or the focus is in an element with the
// returned attributes. New rows come last then, and rows that have gone stay as they were.
function useHeldOrder(rows, keyOf) {
  const { current: held } = useRef({ pointer: false, focus: false, rows: [] });
  if (held.pointer || held.focus) {
    const fresh = new Map(rows.map((row) => [keyOf(row), row]));
    const kept = held.rows.map((row) => fresh.get(keyOf(row)) || row);
    const known = new Set(kept.map(keyOf));
    held.rows = [...kept, ...rows.filter((row) => !known.has(keyOf(row)))];
  } else {
    held.rows = rows;
  }
  return [held.rows, {
    onPointerEnter: () => { held.pointer = true; },
    onPointerLeave: () => { held.pointer = false; },
    onFocusIn: () => { held.focus = true; },
    onFocusOut: (event) => { held.focus = event.currentTarget.contains(event.relatedTarget); },
  }];
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
      ${t('queue.oldest')} <${Instant} at=${c.oldest_overdue} /><//>`}
    ${!q.paused && q.window_open !== false && !c?.oldest_overdue
      && html`<span class="muted">${q.target ? t('queue.delivers') : t('queue.pulled')}</span>`}
  </span>`;
}

export function PauseButton({ queue: q, refresh, kind = 'small' }) {
  const path = inNamespace(`/queues/${encodeURIComponent(q.queue)}`);
  const set = async (paused, undo) => {
    try {
      await change('POST', `${path}/${paused ? 'pause' : 'resume'}`);
      say(t(paused ? 'queue.nowPaused' : 'queue.resumed', { queue: q.queue }), '', undo);
    } catch (err) {
      if (!(err instanceof Problem)) throw err;
      say(err.message || t('problem.unreachable'), 'trouble');
    }
    refresh();
  };
  return html`<${Button} kind=${kind} icon=${q.paused ? 'play' : 'pause'} onClick=${() => set(!q.paused, () => set(q.paused))}
    aria-label=${t(q.paused ? 'queue.resumeNamed' : 'queue.pauseNamed', { queue: q.queue })}>
      ${t(q.paused ? 'resume' : 'pause')}<//>`;
}
