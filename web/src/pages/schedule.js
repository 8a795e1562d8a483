// One schedule: its rule in words, the coming occurrences, the last ones, and its actions.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, get, inNamespace } from '../api.js';
import { settled, usePoll } from '../live.js';
import { can } from '../session.js';
import { go, href } from '../router.js';
import { duration, isoOf, milliseconds, shortInstant, toInput } from '../format.js';
import { now } from '../clock.js';
import { describe } from '../rule.js';
import { curl } from '../curl.js';
import { t } from '../i18n.js';
import { ask, Form, show } from '../parts/dialog.js';
import { Dots, NextRuns, LastRuns } from '../parts/runs.js';
import { Payload } from '../parts/payload.js';
import { say } from '../parts/toast.js';
import { Button, Card, Command, Empty, Facts, Field, Instant, Loading, millis, Refused, Target } from '../parts/ui.js';
import { ScheduleStatus } from './schedules.js';
import { Labels } from './tasks.js';
import { retryText } from './task.js';

export function Schedule({ id }) {
  const path = `/schedules/${encodeURIComponent(id)}`;
  const poll = usePoll((signal) => get(inNamespace(path), {}, { signal }), 3000, [path]);
  const runs = usePoll((signal) => get(inNamespace(`${path}/occurrences`), { next: 10, last: 20 }, { signal }), 3000,
    [path]);
  const refresh = () => {
    poll.refresh();
    runs.refresh();
  };
  const schedule = poll.problem?.status === 404 ? null : poll.data;
  return html`
    <header class="page"><div><p class="crumb"><a href=${href('schedules')}>${t('nav.schedules')}</a></p><h1 class="id">
      ${id}</h1></div>
      ${schedule && can('schedule')
        && html`<${Actions} schedule=${schedule} path=${inNamespace(path)} refresh=${refresh} />`}</header>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${refresh} />`}
    ${!settled(poll, runs) ? html`<${Loading} />` : schedule && html`
      <p class="sentence">${describe(schedule.repeat)} · <${ScheduleStatus} schedule=${schedule} /></p>
      ${schedule.note && html`<p class="note">${schedule.note}</p>`}
      ${runs.data ? html`<${Runs} id=${id} runs=${runs.data} schedule=${schedule} />`
        : html`<${Refused} problem=${runs.problem} retry=${runs.refresh} />`}
      <${Details} schedule=${schedule} />
      <${Card} title=${t('task.same')}><${Command} text=${curl('GET', `${path}/occurrences?next=10&last=20`)} /><//>`}`;
}

// Runs shows the coming and the last occurrences, from an answer of GET …/occurrences.
function Runs({ id, runs: { next, last }, schedule }) {
  return html`<div class="columns">
    <${Card} title=${t('schedule.coming')}
      side=${html`<span class="muted">${schedule.repeat.time_zone || 'UTC'}</span>`}><${NextRuns} next=${next} schedule=${schedule} /><//>
    <${Card} title=${t('schedule.last')} side=${html`<${Dots} last=${last} />`}>
      ${last.length ? html`<${LastRuns} id=${id} last=${last} />`
        : html`<${Empty} title=${t('schedule.noRuns')} command=${`belfry schedule fire ${id}`}>
          ${t('schedule.noRunsText')}<//>`}<//>
  </div>`;
}

function Actions({ schedule: s, path, refresh }) {
  const named = { id: s.id };
  const fire = () => ask({
    title: t('sfire.title', named), text: t('sfire.text'), action: t('sfire.do'),
    run: async () => {
      const { id } = await change('POST', `${path}/fire`, {});
      say(t('sfire.done', { id }));
      refresh();
    },
  });
  const skip = () => ask({
    title: t('skip.title', named), text: t('skip.text', { at: s.next_at ? shortInstant(millis(s.next_at)) : '–' }),
      action: t('skip.do'),
    run: async () => {
      await change('POST', `${path}/skip`, {});
      say(t('skip.done'));
      refresh();
    },
  });
  const remove = () => ask({
    title: t('sdelete.title', named), text: t('sdelete.text', { n: s.running.length }), action: t('sdelete.do'),
      danger: true,
    run: async () => {
      await change('DELETE', path);
      say(t('sdelete.done', named));
      go(href('schedules'));
    },
  });
  return html`<div class="side actions">
    <${Button} icon=${s.paused ? 'play' : 'pause'} onClick=${() => show(Pause, { schedule: s, path, refresh })}>
      ${t(s.paused ? 'resume' : 'pause')}<//>
    <${Button} icon="bolt" onClick=${fire}>${t('sfire.name')}<//>
    ${s.next_at && html`<${Button} onClick=${skip}>${t('skip.name')}<//>`}
    <${Button} onClick=${() => show(Backfill, { schedule: s, path, refresh })}>${t('backfill.name')}<//>
    <a class="button" href=${href(`schedules/${encodeURIComponent(s.id)}/edit`)}>${t('edit')}</a>
    <${Button} kind="danger" icon="trash" onClick=${remove}>${t('delete')}<//>
  </div>`;
}

function Pause({ schedule: s, path, refresh, close }) {
  const [note, setNote] = useState(s.note);
  const name = s.paused ? 'resume' : 'pause';
  const run = () => set(name, note, () => set(s.paused ? 'pause' : 'resume', s.note));
  const set = async (verb, words, undo) => {
    await change('POST', `${path}/${verb}`, words ? { note: words } : {});
    say(t(`s${verb}.done`, { id: s.id }), '', undo);
    refresh();
  };
  return html`<${Form} title=${t(`s${name}.title`, { id: s.id })} action=${t(name)} run=${run} close=${close}>
    <p>${t(`s${name}.text`)}</p>
    <${Field} label=${t('note')} hint=${t('note.hint')}>
      ${(tied) => html`<input ...${tied} maxlength="255" value=${note} onInput=${(e) => setNote(e.target.value)} />`}
        <//>
  <//>`;
}

function Backfill({ schedule: s, path, refresh, close }) {
  const [from, setFrom] = useState(toInput(now() - 86400e3));
  const [to, setTo] = useState(toInput(now()));
  const run = async () => {
    const body = { from: isoOf(from), to: isoOf(to) };
    const after = await change('POST', `${path}/backfill`, body);
    say(t('backfill.done', { n: after.running.length + after.waiting.length }));
    refresh();
  };
  const box = (label, value, set) => html`<${Field} label=${t(label)}>
    ${(tied) => html`<input ...${tied} type="datetime-local" step="1" required value=${value}
      onInput=${(e) => set(e.target.value)} />`}<//>`;
  return html`<${Form} title=${t('backfill.title', { id: s.id })} action=${t('backfill.do')} run=${run} close=${close}>
    <p>${t('backfill.text', { overlap: t(`overlap.${s.overlap}`) })}</p>${box('from', from, setFrom)}
      ${box('to', to, setTo)}
  <//>`;
}

function Details({ schedule: s }) {
  const r = s.repeat;
  const task = s.task;
  return html`<div class="columns">
    <${Card} title=${t('schedule.rule')}><${Facts} of=${[
    ['cron', r.cron && html`<code class="block">${r.cron.join('\n')}</code>`],
    [t('schedule.every'), r.every && html`<code>${r.every}</code>`],
    [t('schedule.anchor'), r.anchor && html`<${Instant} at=${r.anchor} full />`],
    [t('schedule.zone'), r.time_zone],
    [t('schedule.calendar'), r.calendar],
    [t('schedule.start'), r.start && html`<${Instant} at=${r.start} full />`],
    [t('schedule.end'), r.end && html`<${Instant} at=${r.end} full />`],
    [t('schedule.count'), r.count],
    [t('schedule.except'), r.except && html`<code class="block">${r.except.join('\n')}</code>`],
    [t('schedule.jitter'), r.jitter && duration(milliseconds(r.jitter))],
    [t('schedule.misfire'), html`<code>${s.misfire}</code> – ${t(`misfire.${s.misfire}`)}`],
    [t('schedule.overlap'), html`<code>${s.overlap}</code> – ${t(`overlap.${s.overlap}`)}`],
    [t('schedule.runs'), t('schedule.runsText', { started: s.started, passed: s.passed })],
    [t('created'), html`<${Instant} at=${s.created_at} full />`],
    ['tzdata', s.tz_data],
  ]} /><//>
    <${Card} title=${t('schedule.task')}><${Facts} of=${[
    [t('queue'), html`<a href=${href(`queues/${encodeURIComponent(task.queue)}`)}>${task.queue}</a>`],
    [t('task.target'), task.target && html`<${Target} of=${task.target} />`],
    [t('labels'), task.labels && html`<${Labels} labels=${task.labels} />`],
    [t('task.retry'), task.retry && retryText(task.retry)],
    [t('task.expires'), task.expires_after && duration(milliseconds(task.expires_after))],
    [t('task.group'), task.group],
    [t('task.priority'), task.priority],
  ]} /><${Payload} task=${task} /><//>
  </div>`;
}
