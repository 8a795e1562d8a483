// Operations under way, and the last that have ended.
import { html } from '../html.js';
import { get } from '../api.js';
import { usePoll } from '../live.js';
import { t } from '../i18n.js';
import { OperationRow } from '../parts/moves.js';
import { Card, Empty, awaited, Refused } from '../parts/ui.js';

export function Operations() {
  const poll = usePoll((signal) => get('/v1/operations', {}, { signal }), 2000);
  const all = [...(poll.data?.operations || [])].reverse();
  const running = all.filter((o) => o.state === 'running');
  const ended = all.filter((o) => o.state !== 'running');
  const part = (title, list) => list.length > 0
    && html`<${Card} title=${title}>${list.map((o) => html`<${OperationRow} key=${o.id} operation=${o} />`)}<//>`;
  return html`<header class="page"><h1>${t('nav.operations')}</h1></header>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
    ${awaited(poll)}
    ${part(t('operations.running'), running)}${part(t('operations.ended'), ended)}
    ${poll.data && !all.length
      && html`<${Empty} title=${t('operations.empty')}
        command="belfry operation move --queue reports --by 2h --dry-run">${t('operations.emptyText')}<//>`}`;
}
