// One queue: its tasks, its policy, and its limits.
import { html } from '../html.js';
import { change, get, inNamespace } from '../api.js';
import { usePoll } from '../live.js';
import { useFlow } from '../flow.js';
import { holdOf, isLate, sums } from '../queues.js';
import { can } from '../session.js';
import { go, href } from '../router.js';
import { compact, duration, milliseconds, number } from '../format.js';
import { curl } from '../curl.js';
import { t } from '../i18n.js';
import { Coming } from '../parts/coming.js';
import { NextTasks } from '../parts/nexttasks.js';
import { Hold } from '../parts/late.js';
import { PauseButton, QueueStatus } from '../parts/queuerows.js';
import { editQueue } from '../parts/queueform.js';
import { ask } from '../parts/dialog.js';
import { say } from '../parts/toast.js';
import { Table } from '../parts/table.js';
import {
  awaited, Button, Card, Command, Facts, Figure, Id, Instant, Refused, Since, Target,
} from '../parts/ui.js';
import { EventTag } from './events.js';
import { FollowUp, retryText } from './task.js';

export function Queue({ name }) {
  const path = `/queues/${encodeURIComponent(name)}`;
  const poll = usePoll((signal) => get(inNamespace(path), {}, { signal }), 2000, [path]);
  const flow = useFlow(name);
  const queue = poll.problem?.status === 404 ? null : poll.data;
  return html`
    <header class="page"><div><p class="crumb"><a href=${href('queues')}>${t('nav.queues')}</a></p><h1 class="id">
      ${name}</h1></div>
      ${queue && can('operate')
        && html`<${Actions} queue=${queue} path=${inNamespace(path)} refresh=${poll.refresh} />`}</header>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
    ${awaited(poll)}
    ${queue && html`<p class="sentence"><${QueueStatus} queue=${queue} /></p>
      <${Counts} name=${name} counts=${queue.counts} />
      <${Flow} flow=${flow} queue=${queue} />
      ${queue.broken && html`<${Card} title=${t('queue.broken')}><${Broken} receivers=${queue.broken} /><//>`}
      <div class="columns">
        <${Card} title=${t('next.title')}><${NextTasks} queue=${name} most=${8} /><//>
        <${Card} title=${t('queue.latest')}><${Latest} flow=${flow} /><//>
        <${Card} title=${t('queue.policy')}><${Policy} queue=${queue} /><//>
        <${Card} title=${t('due.spans')}><${Coming} sum=${sums([queue])} /><//></div>
      <${Card} title=${t('task.same')}><${Command} text=${curl('GET', path)} /><//>`}`;
}

function Actions({ queue, path, refresh }) {
  const remove = () => ask({
    title: t('qdelete.title', { queue: queue.queue }), text: t('qdelete.text'), action: t('delete'), danger: true,
    run: async () => {
      await change('DELETE', path);
      say(t('qdelete.done', { queue: queue.queue }));
      go(href('queues'));
    },
  });
  return html`<div class="side actions"><${PauseButton} queue=${queue} refresh=${refresh} kind="" />
    <${Button} onClick=${() => editQueue(queue, refresh)}>${t('edit')}<//>
    <${Button} kind="danger" icon="trash" onClick=${remove}>${t('delete')}<//></div>`;
}

function Counts({ name, counts }) {
  const states = ['scheduled', 'ready', 'firing', 'retrying', 'dead', 'delivered', 'cancelled'];
  return html`<dl class="figures small">
    ${states.map((s) => html`<${Figure} label=${t(`state.${s}`)} value=${compact(counts[s])}
    tone=${s === 'dead' && counts.dead ? 'trouble' : ''} to=${href('tasks', { queue: name, state: s })}
    note=${s === 'firing' && counts.leased ? t('queue.leased', { n: number(counts.leased) }) : ''} />`)}</dl>`;
}

// Flow shows the rates of the last minute, and what holds the tasks that are overdue.
function Flow({ flow: { data, problem, refresh }, queue: q }) {
  if (problem && !data) return html`<${Refused} problem=${problem} retry=${refresh} />`;
  const span = data ? t('flow.span', { span: duration(data.spanMs) }) : '';
  const figure = (value) => (data ? value : '–');
  const hold = holdOf(q);
  const reason = hold && html`<${Hold} queue=${q} />`;
  return html`<dl class="figures small">
    <${Figure} label=${t('flow.rate')} value=${figure(data && compact(data.fired))} unit=${t('per.second')}
      note=${span} />
    <${Figure} label=${t('figure.late')} value=${data?.p99 == null ? '–' : duration(data.p99)}
      note=${reason || span} />
    <${Figure} label=${t('flow.failures')} value=${figure(data && compact(data.failures))}
      tone=${data?.failures ? 'trouble' : ''} note=${span} />
    <${Figure} label=${t('flow.oldest')} value=${q.counts.oldest_overdue
    ? html`<${Since} at=${q.counts.oldest_overdue} />` : '–'} tone=${isLate(q) && !hold ? 'trouble' : ''}
      note=${reason || ''} />
  </dl>`;
}

function Latest({ flow: { data } }) {
  if (!data?.latest.length) return html`<p class="muted">${t('queue.nothingLatest')}</p>`;
  return html`<ol class="runs">${data.latest.map((e) => html`<li key=${e.id}>
    <${Id} id=${e.task} to=${href(`tasks/${encodeURIComponent(e.task)}`)} /> <${EventTag} type=${e.type} />
    <span class="muted"><${Instant} at=${e.at} />${e.answer && ` · ${e.answer}`}</span></li>`)}</ol>`;
}

// Broken lists the receivers that fail.
function Broken({ receivers }) {
  return html`<${Table} caption=${t('queue.broken')} rows=${receivers} rowKey=${(r) => r.receiver + r.path} columns=${[
    { label: t('queue.receiver'), cell: (r) => html`<code>${(r.receiver + r.path) || t('task.target')}</code>` },
    { label: t('queue.brokenSince'), cell: (r) => html`<${Instant} at=${r.since} />` },
    { label: t('queue.brokenError'), kind: 'long', cell: (r) => r.last_error },
    { label: t('state.ready'), kind: 'n', cell: (r) => number(r.waiting) },
  ]} />`;
}

function Policy({ queue: q }) {
  const length = (text) => text && duration(milliseconds(text));
  return html`<${Facts} of=${[
    [t('task.target'), q.target ? html`<${Target} of=${q.target} />` : t('queue.pulledLong')],
    [t('task.timeout'), length(q.target?.timeout)],
    [t('task.headers'), q.target?.headers
      && html`<code class="block">${Object.entries(q.target.headers).map(([n, v]) => `${n}: ${v}\n`)}</code>`],
    [t('task.retry'), q.retry ? retryText(q.retry) : t('queue.retryDefault')],
    [t('queue.inFlight'), q.max_in_flight ? number(q.max_in_flight) : t('queue.noLimit')],
    [t('queue.perSecond'), q.max_per_second ? number(q.max_per_second, 3) : t('queue.noLimit')],
    [t('queue.window'), q.window && windowText(q.window)],
    [t('queue.batch'), q.batch_max],
    [t('queue.group'), q.fifo ? t('queue.fifo') : q.group_in_flight],
    [t('queue.groupRate'), q.group_per_second && number(q.group_per_second, 3)],
    [t('task.onDelivered'), q.on_delivered && html`<${FollowUp} of=${q.on_delivered} />`],
    [t('task.onDead'), q.on_dead && html`<${FollowUp} of=${q.on_dead} />`],
    [t('queue.fair'), q.fair && t('yes')],
    [t('queue.keepDone'), length(q.keep_done || '10m')],
    [t('queue.keepDead'), q.keep_dead ? length(q.keep_dead) : t('queue.keepForever')],
    [t('queue.signing'), q.signing && html`<code>${q.signing.secrets.join(', ')}</code>`],
  ]} />`;
}

function windowText(w) {
  return [w.daily.join(', '), w.days, w.time_zone || 'UTC', w.calendar].filter(Boolean).join(' · ');
}
