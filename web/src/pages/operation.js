// One operation: its progress, its outcomes, and why it waits.
import { html } from '../html.js';
import { change, get } from '../api.js';
import { usePoll } from '../live.js';
import { can, canCluster } from '../session.js';
import { go, href } from '../router.js';
import { bytes, duration, number, percent } from '../format.js';
import { t } from '../i18n.js';
import { Conditions } from '../parts/bulk.js';
import { ask } from '../parts/dialog.js';
import { nameOf } from '../parts/moves.js';
import { say } from '../parts/toast.js';
import { Bar, Button, Card, Command, Facts, Instant, Loading, millis, Refused, State } from '../parts/ui.js';

export function Operation({ id }) {
  const path = `/v1/operations/${encodeURIComponent(id)}`;
  const poll = usePoll((signal) => get(path, {}, { signal }), 1000, [id]);
  const o = poll.data;
  const mayStop = o?.state === 'running' && (o.kind === 'bulk' ? can('operate', o.namespace) : canCluster('operate'));
  const stop = () => ask({
    title: t('stop.title'), text: t(o.kind === 'bulk' ? 'stop.textBulk' : 'stop.text'), action: t('stop.do'),
      danger: true,
    run: async () => {
      const after = await change('DELETE', path);
      say(t('stop.done'));
      if (after.id !== id) go(href(`operations/${after.id}`));
      poll.refresh();
    },
  });
  return html`
    <header class="page"><div><p class="crumb"><a href=${href('operations')}>${t('nav.operations')}</a></p><h1>
      ${o ? nameOf(o) : id}</h1></div>
      <div class="side">${mayStop && html`<${Button} kind="danger" onClick=${stop}>${t('stop.name')}<//>`}</div>
        </header>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
    ${!o && !poll.problem && html`<${Loading} />`}
    ${o && html`
      <p class="sentence" role="status">
        <${State} state=${o.state} /> ${percent(o.percent)} · ${number(o.done)} / ${number(o.total)}</p>
      <${Bar} part=${o.percent} label=${nameOf(o)} />
      ${o.waits.map((reason) => html`<p class="warn">${reason}</p>`)}${o.detail && html`<p>${o.detail}</p>`}
        ${o.cause && html`<p>${o.cause}</p>`}
      <div class="columns">
        ${o.kind === 'bulk' && html`<${Card} title=${t('outcomes')}><${Outcomes} operation=${o} /><//>`}
        <${Card} title=${t('task.details')}><${Facts} of=${[
    ['id', html`<code>${o.id}</code>`],
    [t('namespace'), o.namespace],
    [t('operation.filter'), o.kind === 'bulk' && html`<${Conditions} filter=${o.filter || {}} />`],
    [t('bulk.move.by'), o.by],
    [t('when.at'), o.fire_at && html`<${Instant} at=${o.fire_at} full />`],
    [t('bulk.rate'), o.per_second],
    [t('operation.began'), html`<${Instant} at=${o.began_at} full />`],
    [t('operation.ended'), o.ended_at && html`<${Instant} at=${o.ended_at} full />`],
    [t('schedule.took'), o.ended_at && duration(millis(o.ended_at) - millis(o.began_at))],
    [t('operation.bytes'), o.bytes_left > 0 && `${bytes(o.bytes_left)} · ${bytes(o.bytes_per_second)}/s`],
    [t('operation.copied'), o.tasks_copied > 0 && number(o.tasks_copied)],
  ]} /><//>
      </div>
      <${Card} title=${t('task.same')}><${Command} text=${`belfry operation show ${o.id}`} /><//>`}`;
}

function Outcomes({ operation: o }) {
  const list = Object.entries(o.outcomes || {}).sort((a, b) => b[1] - a[1]);
  if (!list.length) return html`<p class="muted">${t(o.state === 'running' ? 'outcomes.none' : 'outcomes.nothing')}
    </p>`;
  const most = list[0][1];
  return html`<dl class="outcomes">
    ${list.map(([name, n]) => html`<div><dt><code>${name}</code> <span class="muted">${t(`outcome.${name}`)}</span></dt>
    <dd><b>${number(n)}</b><${Bar} part=${(n / most) * 100} label=${name} /></dd></div>`)}</dl>`;
}
