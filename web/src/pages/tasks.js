// The list of tasks: searched by the cluster, page by page, with the calls on all that match.
import { html } from '../html.js';
import { can } from '../session.js';
import { href } from '../router.js';
import { shortInstant } from '../format.js';
import { isFilter } from '../labels.js';
import { bulkFilter, filtersOf } from '../search.js';
import { t } from '../i18n.js';
import { askBulk } from '../parts/bulk.js';
import { Filters } from '../parts/filters.js';
import { Selected } from '../parts/selected.js';
import { List, Table, useList, useSelection } from '../parts/table.js';
import { Icon } from '../parts/icon.js';
import { Button, Empty, Id, Instant, millis, State, Tag } from '../parts/ui.js';

const names = ['prefix', 'queue', 'label', 'state', 'due_after', 'due_before'];

export function Tasks({ query }) {
  const filters = filtersOf(query);
  const cursor = query.get('cursor') || '';
  const own = filters.prefix ? 'id' : 'due'; // an id is looked for among all tasks, ended ones included
  const order = query.get('order') || own;
  const list = useList('/tasks', 'tasks', { ...filters, order, cursor, limit: 50 }, cursor ? 0 : 4000);
  const selection = useSelection(list);
  return html`
    <header class="page"><h1>${t('nav.tasks')}</h1>
      <div class="side">${can('schedule')
        && html`<a class="button primary" href=${href('new/task')}><${Icon} name="plus" />${t('task.new')}</a>`}</div>
          </header>
    <${Filters} page="tasks" filters=${filters} names=${names} />
    <${Many} filters=${filters} list=${list} selection=${selection} />
    <${List} list=${list} page="tasks" query=${filters} order=${order === own ? undefined : order} cursor=${cursor}
      empty=${html`<${None} />`}>
      <p class="muted">${t(order === 'id' ? 'tasks.anyOrder' : filters.state ? 'tasks.dueOrder' : 'tasks.waitOrder')}</p>
      <${TaskRows} tasks=${list.rows} selection=${selection} order=${order}
        sort=${(by) => href('tasks', { ...filters, order: by })} />
    <//>`;
}

function None() {
  const action = can('schedule') && html`<a class="button" href=${href('new/task')}>${t('task.new')}</a>`;
  return html`<${Empty} title=${t('tasks.empty')}
    command="belfry task schedule hello --in 10s --url http://127.0.0.1:9000/" action=${action}>
      ${t('tasks.emptyText')}<//>`;
}

// TaskRows shows tasks with the instant that comes next for each.
function TaskRows({ tasks, selection, order, sort }) {
  return html`<${Table} caption=${t('nav.tasks')} rows=${tasks} rowKey=${(x) => x.id}
    selection=${can('schedule') && selection} columns=${[
    { label: t('id'), kind: 'id', sort: sort('id'),
      cell: (x) => html`<${Id} id=${x.id} to=${href(`tasks/${encodeURIComponent(x.id)}`)} />` },
    { label: t('state'), cell: (x) => html`<${State} state=${x.state} />` },
    { label: t('due'), sort: sort('due'), sorted: order === 'due',
      cell: (x) => html`<${Instant} at=${x.next_attempt_at || x.fire_at} />` },
    { label: t('instant'), kind: 'wide',
      cell: (x) => html`<span class="muted">${shortInstant(millis(x.next_attempt_at || x.fire_at))}</span>` },
    { label: t('queue'),
      cell: (x) => html`<${Id} id=${x.queue} to=${href(`queues/${encodeURIComponent(x.queue)}`)} />` },
    { label: t('labels'), kind: 'long', cell: (x) => html`<${Labels} labels=${x.labels} />` },
    { label: t('attempts'), kind: 'n', cell: (x) => x.attempts || html`<span class="muted">0</span>` },
  ]} />`;
}

export function Labels({ labels }) {
  if (!labels) return '';
  return html`<span class="tags">
    ${Object.entries(labels).map(([name, value]) => (isFilter(name)
    ? html`<a class="tag" title=${`${name}=${value}`} href=${href('tasks', { label: `${name}=${value}` })}>
      ${name}=${value}</a>`
    : html`<${Tag}>${name}=${value}<//>`))}</span>`;
}

// Many offers the bulk operations on the tasks that match, or on the selected ones.
function Many({ filters, list, selection }) {
  if (selection.ids.size) {
    return html`<${Selected} selection=${selection} rows=${list.rows} ops=${['cancel', 'move', 'fire']}
      refresh=${list.refresh} />`;
  }
  if (!can('operate')) return null;
  const none = list.data && !list.rows.length && !list.next;
  const filter = bulkFilter(filters);
  const onlyDead = filters.state?.length === 1 && filters.state[0] === 'dead';
  const ops = onlyDead ? ['replay', 'purge'] : ['cancel', 'move', 'fire'];
  return html`<div class="many"><span>${t(Object.keys(filters).length ? 'bulk.onMatching' : 'bulk.onAll')}</span>
    ${ops.map((op) => html`<${Button} kind="small" disabled=${none}
      onClick=${() => askBulk(op, filter)}>${t(`bulk.${op}.name`)}…<//>`)}
      </div>`;
}
