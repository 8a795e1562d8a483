// The overview answers four questions: is the cluster healthy, what is next, what is late, and what is coming.
import { useMemo, useState } from 'preact/hooks';
import { html } from '../html.js';
import { get } from '../api.js';
import { learn, now } from '../clock.js';
import { usePoll } from '../live.js';
import { allQueues, holdOf, late, sums } from '../queues.js';
import { canCluster, useSession } from '../session.js';
import { href } from '../router.js';
import { compact, duration, number, time } from '../format.js';
import { quantile, rate, recent, stepsOf } from '../activity.js';
import { remember } from '../trend.js';
import { dueSpans } from '../wheelmath.js';
import { t } from '../i18n.js';
import { Bars } from '../parts/bars.js';
import { Chart } from '../parts/chart.js';
import { Coming } from '../parts/coming.js';
import { Heat } from '../parts/heat.js';
import { Late } from '../parts/late.js';
import { NextTasks } from '../parts/nexttasks.js';
import { Wheel } from '../parts/wheel.js';
import { Sparkline } from '../parts/sparkline.js';
import { FirstRun } from '../parts/firstrun.js';
import { HealthLine } from '../parts/findings.js';
import { QueueRows } from '../parts/queuerows.js';
import { awaited, Card, Empty, Figure, Loading, Refused } from '../parts/ui.js';

export function Overview() {
  const wide = canCluster('read');
  const queues = usePoll(allQueues, 4000);
  return html`<h1 class="hidden">${t('nav.overview')}</h1>
    ${wide ? html`<${Whole} queues=${queues} />` : html`<${Part} queues=${queues} />`}`;
}

// Whole is the overview for callers who may read the whole cluster.
function Whole({ queues }) {
  const [shard, setShard] = useState('');
  const wheel = usePoll(async (signal) => {
    const answer = await get('/v1/wheel', { shard }, { signal });
    learn(Date.parse(answer.now));
    return answer;
  }, 1000, [shard]);
  const activity = usePoll((signal) => get('/v1/activity', { shard }, { signal }), 2500, [shard]);
  const doctor = usePoll((signal) => get('/v1/doctor', {}, { signal }), 10_000);
  const steps = useMemo(() => activity.data && stepsOf(activity.data, now()), [activity.data]);
  const empty = queues.data?.length === 0 && wheel.data?.waiting === 0;
  return html`
    <${HealthLine} doctor=${doctor} />
    ${[wheel, activity].map(({ data, problem, refresh }) => problem && !data
      && html`<${Refused} problem=${problem} retry=${refresh} />`)}
    ${empty && html`<${FirstRun} />`}
    <${Figures} wheel=${wheel.data} steps=${steps} activity=${activity.data} queues=${queues.data} shard=${shard} />
    <div class="columns thirds">
      <${Card} title=${t('next.title')} side=${html`<a href=${href('tasks')}>${t('all')}</a>`}>
        <${NextTasks} most=${10} /><//>
      <${Card} title=${t('late.title')}>${queues.data ? html`<${Late} queues=${queues.data} />` : awaited(queues)}<//>
      <${Card} title=${t('wheel.title')} kind="turning" side=${html`<${ShardChoice} shard=${shard} set=${setShard} />`}>
        ${wheel.data ? html`<${Wheel} wheel=${wheel.data} />` : awaited(wheel)}<//>
    </div>
    ${!empty && html`<div class="columns">
      <${Card} title=${t('due.soon')}>${wheel.data ? html`<${Soon} wheel=${wheel.data} />` : awaited(wheel)}<//>
      <${Card} title=${t('due.spans')}>${wheel.data ? html`<${Spans} wheel=${wheel.data} />` : awaited(wheel)}<//>
      <${Card} title=${t('rates.title')}>
        ${steps ? html`<${Rates} steps=${steps} stepMs=${activity.data.step_ms} />` : awaited(activity)}<//>
      <${Card} title=${t('heat.title')}>
        ${steps ? html`<${Heat} grid=${steps} bounds=${activity.data.late_within_ms}
          stepMs=${activity.data.step_ms} />` : awaited(activity)}<//>
    </div>
    <${QueueCard} queues=${queues} />`}`;
}

// Figures names the scope of each figure where they differ: the wheel and the activity are of the chosen shard or of
// all namespaces, and the dead letters of the namespace.
function Figures({ wheel, steps, activity, queues, shard }) {
  const { namespace, namespaces } = useSession();
  const many = namespaces.length > 1;
  const part = shard ? ` · ${t('shard')} ${shard}` : many ? ` · ${t('figure.all')}` : '';
  const own = many ? ` · ${namespace}` : '';
  const dead = queues ? sums(queues).dead : null;
  const held = queues ? late(queues).filter(holdOf).reduce((sum, q) => sum + q.counts.ready, 0) : null;
  const p99 = steps ? quantile(steps.slice(-24), activity.late_within_ms, 0.99) : null;
  const heldP99 = steps ? quantile(steps.slice(-24), activity.late_within_ms, 0.99, 'held') : null;
  const bound = (ms) => (ms === Infinity ? `> ${duration(5000)}` : `≤ ${duration(ms)}`);
  const stepMs = activity?.step_ms || 5000;
  const perStep = steps?.map((s) => quantile([s], activity.late_within_ms, 0.99) ?? 0).map((v) => (v === Infinity
    ? 10_000 : v));
  return html`<dl class="figures">
    <${Figure} label=${t('figure.waiting') + part} value=${wheel ? compact(wheel.waiting) : '–'}
      to=${part ? undefined : href('tasks', { state: ['scheduled', 'retrying'] })}
      note=${wheel ? t('figure.waiting.note', { n: compact(wheel.due_within['1m']) }) : ''}>
      <${WaitingTrend} wheel=${wheel} shard=${shard} /><//>
    <${Figure} label=${t('figure.fired') + part} value=${steps ? compact(recent(steps, 'fired', stepMs)) : '–'}
      unit=${t('per.second')}
      note=${steps ? t('figure.fired.note', { n: compact(recent(steps, 'failed', stepMs)) }) : ''}>
      <${Spark} steps=${steps} field="fired" stepMs=${stepMs} tone="accent" /><//>
    <${Figure} label=${t('figure.late') + part}
      value=${p99 === null ? '–' : bound(p99)}
      tone=${p99 > 20 ? 'trouble' : ''} note=${t('figure.late.note')}>
      <${Sparkline} values=${perStep} label=${t('figure.late.trend')} /><//>
    <${Figure} label=${t('figure.held') + own} value=${held === null ? '–' : compact(held)}
      note=${t('figure.held.note')}>
      <p class="note">${heldP99 === null ? '' : t('figure.held.late', { late: bound(heldP99) })}</p><//>
    <${Figure} label=${t('figure.dead') + own} value=${dead === null ? '–' : compact(dead)}
      tone=${dead ? 'trouble' : ''} to=${href('dead')}
      note=${steps && !part ? t('figure.dead.note', { n: number(steps.reduce((sum, s) => sum + s.dead, 0)) }) : ''}>
      ${!part && html`<${Spark} steps=${steps} field="dead" stepMs=${stepMs} tone="trouble" />`}<//>
  </dl>`;
}

// WaitingTrend draws the waiting tasks since the page was opened.
function WaitingTrend({ wheel, shard }) {
  const trend = wheel && remember(`waiting ${shard}`, wheel.waiting, Date.parse(wheel.now));
  return html`<${Sparkline} values=${trend?.map((p) => p.value)}
    label=${trend ? t('figure.waiting.trend', { at: time(trend[0].at, { millis: false }) }) : ''} />`;
}

function Spark({ steps, field, stepMs, tone }) {
  return html`<${Sparkline} values=${steps && rate(steps, field, stepMs)}
    label=${t('trend', { what: t(`rate.${field}`) })} tone=${tone} />`;
}

function ShardChoice({ shard, set }) {
  const cluster = usePoll((signal) => get('/v1/map', {}, { signal }), 0);
  const ids = (cluster.data?.shards || []).map((s) => s.id).filter((id) => id > 0);
  return html`<label class="choice"><span>${t('shard')}</span>
    <select value=${shard} onChange=${(e) => set(e.target.value)}>
    <option value="">${t('shard.all')}</option>${ids.map((id) => html`<option value=${String(id)}>${id}</option>`)}
      </select></label>`;
}

function Soon({ wheel }) {
  const { from, step_ms: stepMs, tasks } = wheel.steps;
  const begin = Date.parse(from);
  const items = tasks.map((value, i) => {
    const at = begin + i * stepMs;
    return { value, label: i === 0 ? t('time.now') : `+${Math.round((i * stepMs) / 1000)} s`,
      title: time(at, { millis: false }) };
  });
  const peak = tasks.indexOf(Math.max(...tasks));
  const mark = tasks[peak] > 0
    ? t('due.peak', { n: compact(tasks[peak]), at: time(begin + peak * stepMs, { millis: false }) })
    : t('due.nothing');
  return html`<${Bars} items=${items} label=${t('due.soon')} every=${5} mark=${mark} />`;
}

function Spans({ wheel }) {
  const items = dueSpans(wheel).map((s) => ({ value: s.tasks, label: t(`span.${s.name}`),
    title: t(`span.${s.name}.long`) }));
  return html`<${Bars} items=${items} label=${t('due.spans')} log />`;
}

function Rates({ steps, stepMs }) {
  const fields = [['scheduled', 'muted'], ['fired', 'accent'], ['delivered', 'delivered'], ['failed', 'trouble']];
  const { seconds, series } = useMemo(() => ({
    seconds: steps.map((s) => s.at / 1000),
    series: fields.map(([field, tone]) => ({ label: t(`rate.${field}`), tone, fill: field === 'fired',
      values: rate(steps, field, stepMs) })),
  }), [steps]);
  return html`<${Chart} label=${t('rates.label', { n: compact(recent(steps, 'fired', stepMs)) })} seconds=${seconds}
    series=${series} unit=${` ${t('per.second')}`} />`;
}

function QueueCard({ queues }) {
  return html`<${Card} title=${t('queues.trouble')} side=${html`<a href=${href('queues')}>${t('all')}</a>`}>
    ${queues.problem && !queues.data ? html`<${Refused} problem=${queues.problem} retry=${queues.refresh} />`
    : !queues.data ? html`<${Loading} />`
      : html`<${QueueRows} queues=${queues.data} most=${12} refresh=${queues.refresh} />`}
  <//>`;
}

// Part is the overview for callers who may read their namespace only. It says which role shows the rest.
function Part({ queues }) {
  const { namespace } = useSession();
  const sum = queues.data && sums(queues.data);
  const figure = (name,
    tone) => html`<${Figure} label=${t(`figure.${name}`)} value=${sum ? compact(sum[name]) : '–'}
      tone=${sum?.[name] && tone} />`;
  return html`
    <dl class="figures">${figure('waiting')}${figure('ready')}${figure('firing')}${figure('dead', 'trouble')}</dl>
    ${queues.data?.length === 0 && html`<${FirstRun} />`}
    ${queues.data?.length > 0 && html`<div class="columns thirds">
      <${Card} title=${t('next.title')}><${NextTasks} most=${10} /><//>
      <${Card} title=${t('late.title')}><${Late} queues=${queues.data} /><//>
      <${Card} title=${t('due.spans')}><${Coming} sum=${sum} /><//></div>
    `}
    <${QueueCard} queues=${queues} />
    <${Card} title=${t('wheel.title')}>
      <${Empty} title=${t('role.missing')} command="belfry key create viewer --role read --namespace '*'">
        ${t('role.read.all')}<//><//>`;
}
