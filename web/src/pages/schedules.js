// The list of schedules.
import { html } from '../html.js';
import { can } from '../session.js';
import { href } from '../router.js';
import { filtersOf } from '../search.js';
import { describe } from '../rule.js';
import { t } from '../i18n.js';
import { Filters } from '../parts/filters.js';
import { List, Table, useList } from '../parts/table.js';
import { Icon } from '../parts/icon.js';
import { Empty, Id, Instant, Tag } from '../parts/ui.js';

export function Schedules({ query }) {
  const filters = filtersOf(query);
  const cursor = query.get('cursor') || '';
  const list = useList('/schedules', 'schedules', { ...filters, order: 'due', cursor, limit: 50 }, cursor ? 0 : 5000);
  const create = can('schedule')
    && html`<a class="button primary" href=${href('new/schedule')}><${Icon} name="plus" />${t('schedule.new')}</a>`;
  const empty = html`<${Empty} title=${t('schedules.empty')}
    command=${'belfry schedule put report --cron "0 9 * * MON-FRI" --zone Europe/Berlin'} action=${create}>
      ${t('schedules.emptyText')}<//>`;
  return html`
    <header class="page"><h1>${t('nav.schedules')}</h1><div class="side">${create}</div></header>
    <${Filters} page="schedules" filters=${filters} names=${['prefix', 'queue', 'label']} />
    <${List} list=${list} page="schedules" query=${filters} cursor=${cursor} empty=${empty}>
      <${Table} caption=${t('nav.schedules')} rows=${list.rows} rowKey=${(s) => s.id} columns=${[
    { label: t('id'), kind: 'id',
      cell: (s) => html`<${Id} id=${s.id} to=${href(`schedules/${encodeURIComponent(s.id)}`)} />` },
    { label: t('schedule.rule'), kind: 'long',
      cell: (s) => html`<span title=${s.note}>${describe(s.repeat)}
        ${s.note && html` <span class="muted">– ${s.note}</span>`}</span>` },
    { label: t('schedule.next'), sorted: true, cell: (s) => html`<${ScheduleStatus} schedule=${s} />` },
    { label: t('schedule.underWay'), kind: 'n', cell: (s) => s.running.length + s.waiting.length
      || html`<span class="muted">0</span>` },
    { label: t('schedule.runs'), kind: 'n', cell: (s) => s.started },
    { label: t('queue'), cell: (s) => s.task.queue },
  ]} />
    <//>`;
}

// ScheduleStatus is the next instant of a schedule, or why there is none.
export function ScheduleStatus({ schedule: s }) {
  if (s.problem) return html`<${Tag} tone="trouble">${s.problem}<//>`;
  if (s.paused) return html`<${Tag} tone="warning">${t('queue.paused')}<//>`;
  if (s.ended) return html`<${Tag}>${t('schedule.ended')}<//>`;
  return html`<${Instant} at=${s.next_at} />`;
}
