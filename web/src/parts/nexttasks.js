// NextTasks lists the tasks that come next in the namespace, or in one of its queues, in the order of their instants.
import { html } from '../html.js';
import { get, inNamespace } from '../api.js';
import { usePoll } from '../live.js';
import { href } from '../router.js';
import { t } from '../i18n.js';
import { Id, Instant, Loading, Refused } from './ui.js';

export function NextTasks({ queue, most }) {
  const poll = usePoll((signal) => get(inNamespace('/tasks'),
    { queue, state: ['scheduled', 'retrying'], order: 'due', limit: most }, { signal }), 2000, [queue]);
  if (!poll.data) return poll.problem ? html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`
    : html`<${Loading} />`;
  if (!poll.data.tasks.length) return html`<p class="muted">${t('next.nothing')}</p>`;
  return html`<ol class="runs">${poll.data.tasks.map((x) => html`<li key=${x.id}>
    <${Id} id=${x.id} to=${href(`tasks/${encodeURIComponent(x.id)}`)} />
    <span class="muted"><${Instant} at=${x.next_attempt_at || x.fire_at} />${!queue && ` · ${x.queue}`}</span>
  </li>`)}</ol>`;
}
