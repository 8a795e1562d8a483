// The coming and the last occurrences of a schedule.
import { html } from '../html.js';
import { city, duration, instant, milliseconds, number } from '../format.js';
import { href } from '../router.js';
import { t, word } from '../i18n.js';
import { Table } from './table.js';
import { Instant, millis, State, Tag, tones } from './ui.js';

// clock describes the effect of a clock change on an occurrence.
export function ClockChange({ change, wall }) {
  return change ? html` <${Tag} tone="warning">${t(`clock.${change}`, { wall: wall?.slice(11, 16) || '' })}<//>` : null;
}

// localText writes an instant as the rule's zone shows it.
const localText = (local) => `${local.slice(0, 10)} ${local.slice(11, 19)} ${local.slice(-6)}`;

export function NextRuns({ next, schedule }) {
  if (schedule.paused) return html`<p class="muted">${t('schedule.pausedText')}</p>`;
  if (!next.length) return html`<p class="muted">${t(schedule.ended ? 'schedule.endedText' : 'schedule.noneKnown')}
    </p>`;
  return html`<ol class="runs">${next.map((n) => html`<li key=${n.number}><span class="muted">${number(n.number)}</span>
    <b>${localText(n.local)}</b><${ClockChange} change=${n.clock_change} /> <span class="muted">
      <${Instant} at=${n.due} /></span></li>`)}</ol>`;
}

// Preview lists the occurrences of a rule, with the ones that a calendar or an exception leaves out.
export function Preview({ preview }) {
  const rows = [
    ...preview.occurrences.map((o) => ({ ...o, left: '' })),
    ...preview.excluded.map((o) => ({ ...o, left: o.except })),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  if (!rows.length) return html`<p class="muted">${t('preview.none')}</p>`;
  return html`<ol class="runs">
    ${rows.map((o) => html`<li key=${o.at} class=${o.left ? 'left-out' : ''}><b>${localText(o.local)}</b>
    <${ClockChange} change=${o.clock_change} wall=${o.wall} />
      ${o.left ? html` <${Tag}>${t('preview.left', { by: o.left })}<//>`
        : html` <span class="muted"><${Instant} at=${o.at} /></span>`}</li>`)}</ol>
    <p class="muted">${preview.time_zone} · tzdata ${preview.tz_data}${preview.ended ? ` · ${t('preview.ended')}` : ''}
      </p>`;
}

// Dots show the last occurrences at a glance, the newest at the right.
export function Dots({ last }) {
  const counts = {};
  for (const o of last) counts[o.state] = (counts[o.state] || 0) + (o.count || 1);
  const label = Object.entries(counts).map(([state, n]) => `${word('state', state)} ${n}`).join(', ');
  return html`<span class="dots" role="img" aria-label=${label || t('schedule.noRuns')}>
    ${last.map((o) => html`<i class="${tones[o.state]} ${o.state}" title="${o.number} ${word('state', o.state)}"></i>`)}
      </span>`;
}

export function LastRuns({ id, last }) {
  return html`<${Table} caption=${t('schedule.last')} rows=${[...last].reverse()} rowKey=${(o) => o.number} columns=${[
    { label: t('schedule.number'), kind: 'id',
      cell: (o) => (o.state === 'passed' ? numberOf(o)
        : html`<a href=${href(`tasks/${encodeURIComponent(`${id}@${o.number}`)}`)}>${numberOf(o)}</a>`) },
    { label: `${t('schedule.instant')}, ${city()}`, kind: 'long',
      cell: (o) => instant(millis(o.scheduled)).slice(0, 19) },
    { label: t('state'),
      cell: (o) => html`<${State} state=${o.state} />${o.why && html` <span class="muted">${t(`why.${o.why}`)}</span>`}
        ${o.origin !== 'rule' && html` <${Tag}>${t(`origin.${o.origin}`)}<//>`}` },
    { label: t('schedule.lateness'), kind: 'n', cell: (o) => (o.late ? duration(milliseconds(o.late)) : '–') },
    { label: t('schedule.took'), kind: 'n',
      cell: (o) => (o.ended_at && o.began_at ? duration(millis(o.ended_at) - millis(o.began_at)) : '–') },
    { label: t('error'), kind: 'long', cell: (o) => (o.error ? html`<code>${o.error}</code>` : '') },
  ]} />`;
}

const numberOf = (o) => (o.count ? `${number(o.number)} – ${number(o.number + o.count - 1)}` : number(o.number));
