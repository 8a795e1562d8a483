// One task: its state as a sentence, its life, its payload, and its actions.
import { html } from '../html.js';
import { get, inNamespace } from '../api.js';
import { settled, usePoll } from '../live.js';
import { now } from '../clock.js';
import { href } from '../router.js';
import { duration, instant, milliseconds, relative, shortInstant } from '../format.js';
import { curl } from '../curl.js';
import { t } from '../i18n.js';
import { Timeline } from '../parts/timeline.js';
import { Payload } from '../parts/payload.js';
import { TaskActions } from '../parts/taskactions.js';
import { Card, Command, Cut, Facts, Instant, Loading, millis, Refused, State, Target, useBeat } from '../parts/ui.js';
import { Labels } from './tasks.js';

const finished = ['delivered', 'dead', 'cancelled'];

export function Task({ id }) {
  const path = `/tasks/${encodeURIComponent(id)}`;
  const poll = usePoll((signal) => get(inNamespace(path), {}, { signal }), 2000, [path]);
  const story = usePoll((signal) => get(inNamespace(`${path}/history`), { limit: 200 }, { signal }), 3000, [path]);
  const task = poll.data;
  const refresh = () => {
    poll.refresh();
    story.refresh();
  };
  const gone = poll.problem?.status === 404;
  return html`
    <header class="page"><div><p class="crumb"><a href=${href('tasks')}>${t('nav.tasks')}</a></p><h1 class="id">${id}
      </h1></div>
      ${task && !gone && html`<${TaskActions} task=${task} refresh=${refresh} />`}</header>
    ${!settled(poll, story) ? html`<${Loading} />` : html`
      ${gone ? html`<p class="sentence">${t(goneText(story))}</p>` : task ? html`<${Sentence} task=${task} />`
        : html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
      ${!(gone && story.problem) && html`<${Life} story=${story} task=${gone ? null : task} />`}
      ${task && !gone && html`<${Details} task=${task} />`}
      <${Card} title=${t('task.same')}><${Command} text=${curl('GET', path)} /><//>`}`;
}

// goneText tells a task that has ended from an id without a task.
function goneText({ problem }) {
  if (problem?.status === 404) return 'task.none';
  return problem?.status === 410 ? 'task.noEvents' : 'task.gone';
}

// Sentence counts an attempt from the instant at which it begins. It is granted a moment before.
function Sentence({ task: answered }) {
  useBeat();
  const early = answered.state === 'firing' && answered.attempts === 1 && millis(answered.fire_at) > now();
  const task = early ? { ...answered, state: 'scheduled' } : answered;
  return html`<p class="sentence"><${State} state=${task.state} /> ${sentence(task)}</p>
    ${task.last_error && html`<p class="error-text"><b>${t('task.lastError')}</b> <code>${task.last_error}</code>
      </p>`}`;
}

// sentence says the state of a task in words.
function sentence(task) {
  const due = millis(task.next_attempt_at || task.fire_at);
  const params = { at: shortInstant(due), rel: relative(due), attempts: task.attempts, attempt: task.attempts + 1 };
  if (task.waits_for === 'window') return t('say.window', params);
  if (task.state === 'firing' && task.lease_ends_at) return t('say.leased',
    { ...params, until: shortInstant(millis(task.lease_ends_at)) });
  if (task.state === 'cancelled' && task.outcome === 'stopped') return t('say.stopped', params);
  return t(`say.${task.state}`, params);
}

function Life({ story, task }) {
  const next = task && !finished.includes(task.state) && task.state !== 'firing'
    ? millis(task.next_attempt_at || task.fire_at) : null;
  const body = story.data
    ? html`<${Timeline} events=${story.data.events} next=${next} />
      ${!story.data.complete
        && html`<p class="muted">
          ${story.data.complete_since ? t('task.since', { at: instant(millis(story.data.complete_since)) })
            : t('task.incomplete')}</p>`}`
    : html`<p class="muted">
      ${t('task.incomplete')}</p>`;
  return html`<${Card} title=${t('task.life')}>${body}<//>`;
}

function Details({ task }) {
  const retry = task.retry;
  const followed = /^(.+)@(delivered|dead)$/.exec(task.id)?.[1];
  return html`<div class="columns">
    <${Card} title=${t('task.payload')}><${Payload} task=${task} /><//>
    <${Card} title=${t('task.details')}><${Facts} of=${[
    [t('queue'), html`<a href=${href(`queues/${encodeURIComponent(task.queue)}`)}>${task.queue}</a>`],
    [t('due'), html`<${Instant} at=${task.fire_at} full />`],
    [t('task.next'), task.next_attempt_at && html`<${Instant} at=${task.next_attempt_at} full />`],
    [t('task.schedule'), task.schedule
      && html`<a href=${href(`schedules/${encodeURIComponent(task.schedule)}`)}>${task.schedule}
        </a> · ${task.occurrence}`],
    [t('labels'), task.labels && html`<${Labels} labels=${task.labels} />`],
    [t('task.target'), task.target ? html`<${Target} of=${task.target} />`
      : html`<span class="muted">${t('task.ofQueue')}</span>`],
    [t('task.headers'), task.target?.headers
      && html`<code class="block">${Object.entries(task.target.headers).map(([n, v]) => `${n}: ${v}\n`)}</code>`],
    [t('task.timeout'), task.target?.timeout],
    [t('task.retry'), retry ? retryText(retry) : html`<span class="muted">${t('task.ofQueue')}</span>`],
    [t('task.onDelivered'), task.on_delivered
      && html`<${FollowUp} of=${task.on_delivered} task=${task} end="delivered" />`],
    [t('task.onDead'), task.on_dead && html`<${FollowUp} of=${task.on_dead} task=${task} end="dead" />`],
    [t('task.follows'), followed && html`<a href=${taskHref(followed)}>${followed}</a>`],
    [t('task.expires'), task.expires_after && duration(milliseconds(task.expires_after))],
    [t('task.group'), task.group],
    [t('task.priority'), task.priority],
    [t('task.outcome'), task.outcome && html`<code>${task.outcome}</code> – ${t(`outcome.${task.outcome}`)}`],
    [t('task.webhook'), task.webhook_id && html`<code><${Cut} text=${task.webhook_id} /></code>`],
    [t('shard'), task.shard],
    [t('revision'), task.revision],
    [t('created'), html`<${Instant} at=${task.created_at} full />`],
  ]} /><//>
  </div>`;
}

const taskHref = (id) => href(`tasks/${encodeURIComponent(id)}`);

// FollowUp says where the follow-up of an end goes. It leads to the follow-up once the task has ended so.
export function FollowUp({ of, task, end }) {
  const place = of.target ? html`<code>${of.target.url}</code>` : t('task.toQueue', { queue: of.queue || 'default' });
  const id = `${task?.id}@${end}`;
  return html`${place}${of.delay && ` · ${t('task.after', { delay: of.delay })}`}
    ${task?.state === end && html` · <a href=${taskHref(id)}>${id}</a>`}`;
}

export function retryText(retry) {
  const parts = [];
  if (retry.max_attempts) parts.push(t('retry.attempts', { n: retry.max_attempts }));
  if (retry.delays) parts.push(retry.delays.join(', '));
  if (retry.min_backoff
    || retry.max_backoff) parts.push(`${retry.min_backoff || '1s'} – ${retry.max_backoff || '10m'}`);
  return parts.join(' · ');
}
