// The list of queues.
import { html } from '../html.js';
import { can } from '../session.js';
import { filtersOf } from '../search.js';
import { t } from '../i18n.js';
import { Filters } from '../parts/filters.js';
import { QueueRows } from '../parts/queuerows.js';
import { editQueue } from '../parts/queueform.js';
import { List, useList } from '../parts/table.js';
import { Button, Empty } from '../parts/ui.js';

export function Queues({ query }) {
  const filters = filtersOf(query);
  const cursor = query.get('cursor') || '';
  const list = useList('/queues', 'queues', { ...filters, cursor, limit: 100 }, 3000);
  const empty = html`<${Empty} title=${t('queues.empty')}
    command="belfry queue set orders --url https://shop.example/hook --max-in-flight 20">${t('queues.emptyText')}<//>`;
  return html`
    <header class="page"><h1>${t('nav.queues')}</h1>
      <div class="side">${can('operate')
        && html`<${Button} kind="primary" icon="plus" onClick=${() => editQueue(null, list.refresh)}>${t('queue.new')}
          <//>`}</div></header>
    <${Filters} page="queues" filters=${filters} names=${['prefix']} />
    <${List} list=${list} page="queues" query=${filters} cursor=${cursor} empty=${empty}>
      <p class="muted">${t('queues.order')}</p>
      <${QueueRows} queues=${list.rows} refresh=${list.refresh} />
    <//>`;
}
