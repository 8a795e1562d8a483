// Late lists the queues with overdue tasks, and what holds them.
import { html } from '../html.js';
import { number } from '../format.js';
import { holdOf, late } from '../queues.js';
import { href } from '../router.js';
import { t } from '../i18n.js';
import { Icon } from './icon.js';
import { Id, Since } from './ui.js';

const most = 8;

export function Late({ queues }) {
  const list = late(queues);
  if (!list.length) return html`<p class="well"><${Icon} name="check" />${t('late.nothing')}</p>`;
  return html`<ol class="runs">${list.slice(0, most).map((q) => html`<li key=${q.queue}>
    <${Id} id=${q.queue} to=${href(`queues/${encodeURIComponent(q.queue)}`)} />
    <span>${t('late.tasks', { n: q.counts.ready, n_text: number(q.counts.ready) })}, ${t('queue.oldest')}
      ${' '}<${Since} at=${q.counts.oldest_overdue} /></span>
    <${Hold} queue=${q} /></li>`)}</ol>`;
}

// Hold says what holds the overdue tasks of a queue.
export function Hold({ queue: q }) {
  const hold = holdOf(q);
  if (!hold) return html`<span class="trouble">${t('late.belfry')}</span>`;
  const limit = hold === 'inFlight' ? q.max_in_flight : q.max_per_second;
  return html`<span class="muted">${t(`hold.${hold}`, { n: number(limit || 0, 3) })}</span>`;
}
