// Dead letters: tasks that failed for good, with their errors, to replay or to drop.
import { html } from '../html.js';
import { usePoll } from '../live.js';
import { can } from '../session.js';
import { href } from '../router.js';
import { number } from '../format.js';
import { allQueues } from '../queues.js';
import { bulkFilter, filtersOf } from '../search.js';
import { t } from '../i18n.js';
import { askBulk } from '../parts/bulk.js';
import { Filters } from '../parts/filters.js';
import { Selected } from '../parts/selected.js';
import { List, Table, useList, useSelection } from '../parts/table.js';
import { Button, Empty, Id, Instant } from '../parts/ui.js';
import { TaskActions } from '../parts/taskactions.js';
import { Labels } from './tasks.js';

const names = ['prefix', 'queue', 'label', 'due_after', 'due_before'];

export function Dead({ query }) {
  const { state: _, ...filters } = filtersOf(query);
  const cursor = query.get('cursor') || '';
  const list = useList('/tasks', 'tasks', { ...filters, state: 'dead', order: 'due', cursor, limit: 50 }, cursor ? 0 : 4000);
  const selection = useSelection(list);
  const none = list.data && !list.rows.length && !list.next;
  return html`
    <header class="page"><h1>${t('nav.dead')}</h1></header>
    <${ByQueue} />
    <${Filters} page="dead" filters=${filters} names=${names} />
    ${can('operate') && (selection.ids.size
    ? html`<${Selected} selection=${selection} rows=${list.rows} ops=${['replay', 'purge']} refresh=${list.refresh} />`
    : html`<div class="many"><span>${t(Object.keys(filters).length ? 'bulk.onMatching' : 'dead.onAll')}</span>
      ${['replay', 'purge'].map((op) => html`<${Button} kind="small" disabled=${none}
        onClick=${() => askBulk(op, bulkFilter({ ...filters, state: ['dead'] }))}>${t(`bulk.${op}.name`)}…<//>`)}
          </div>`)}
    <${List} list=${list} page="dead" query=${filters} cursor=${cursor}
      empty=${html`<${Empty} title=${t('dead.empty')} command="belfry tail --type failed,dead">${t('dead.emptyText')}
        <//>`}>
      <p class="muted">${t('dead.order')}</p>
      <${Table} caption=${t('nav.dead')} rows=${list.rows} rowKey=${(x) => x.id}
        selection=${can('operate') && selection} columns=${[
    { label: t('id'), kind: 'id',
      cell: (x) => html`<${Id} id=${x.id} to=${href(`tasks/${encodeURIComponent(x.id)}`)} />` },
    { label: t('error'), kind: 'error',
      cell: (x) => html`<code class="error-text" title=${x.last_error}>${x.last_error || '–'}</code>` },
    { label: t('attempts'), kind: 'n', cell: (x) => x.attempts },
    { label: t('due'), cell: (x) => html`<${Instant} at=${x.fire_at} />` },
    { label: t('queue'), cell: (x) => html`<a href=${href('dead', { queue: x.queue })}>${x.queue}</a>` },
    { label: t('labels'), kind: 'long', cell: (x) => html`<${Labels} labels=${x.labels} />` },
    can('operate') && { label: t('actions'), kind: 'end',
      cell: (x) => html`<${TaskActions} small task=${x} refresh=${list.refresh} />` },
  ]} />
    <//>`;
}

// ByQueue counts the dead letters of each queue, as links that filter.
function ByQueue() {
  const poll = usePoll(allQueues, 5000);
  const queues = (poll.data || []).filter((q) => q.counts?.dead).sort((a, b) => b.counts.dead - a.counts.dead);
  if (!queues.length) return null;
  return html`<ul class="chips" aria-label=${t('dead.byQueue')}>
    ${queues.slice(0, 20).map((q) => html`<li><a class="chip" href=${href('dead', { queue: q.queue })}>${q.queue} <b>
      ${number(q.counts.dead)}</b></a></li>`)}</ul>`;
}
