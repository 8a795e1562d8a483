// The cluster: nodes by zone, shards with their replicas, moves in progress, and the findings of doctor.
import { html } from '../html.js';
import { get } from '../api.js';
import { settled, usePoll } from '../live.js';
import { byName } from '../nodes.js';
import { canCluster } from '../session.js';
import { href } from '../router.js';
import { compact, number } from '../format.js';
import { t } from '../i18n.js';
import { Findings, Health } from '../parts/findings.js';
import { NodeCard } from '../parts/nodecard.js';
import { ShardGrid } from '../parts/shardgrid.js';
import { OperationRow, SlotMoves } from '../parts/moves.js';
import { changeReplication, balance } from '../parts/clusteractions.js';
import { Icon } from '../parts/icon.js';
import { Button, Card, Empty, Figure, Loading, Refused } from '../parts/ui.js';

export function Cluster() {
  if (!canCluster('read')) {
    return html`<h1>${t('nav.cluster')}</h1>
      <${Empty} title=${t('role.missing')} command="belfry key create viewer --role read --namespace '*'">
        ${t('role.read.all')}<//>`;
  }
  return html`<${Whole} />`;
}

function Whole() {
  const poll = usePoll((signal) => get('/v1/cluster', {}, { signal }), 2000);
  const doctor = usePoll((signal) => get('/v1/doctor', {}, { signal }), 8000);
  const c = poll.data;
  return html`
    <header class="page"><h1>${t('nav.cluster')}</h1><div class="side">
      ${c && canCluster('operate')
        && html`<${Button} onClick=${() => balance(c)}>${t('balance.name')}…<//>
          <${Button} onClick=${() => changeReplication(c)}>${t('replication.name')}…<//>`}</div></header>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
    ${!settled(poll, doctor) ? html`<${Loading} />` : c && html`
      <${Figures} c=${c} />
      ${c.waits && html`<p class="warn"><${Icon} name="alert" />${c.waits}</p>`}
      <${Card} title=${t('doctor.title')} side=${html`<${Health} doctor=${doctor} />`}>
        <${Findings} doctor=${doctor} /><//>
      <${Moving} c=${c} />
      <${Nodes} c=${c} refresh=${poll.refresh} />
      <${Card} title=${t('shards.title')} side=${html`<${Legend} />`}><${ShardGrid} cluster=${c} /><//>
      <${Backups} backups=${c.backups} />`}`;
}

function Figures({ c }) {
  const up = c.nodes.filter((n) => n.alive).length;
  const led = c.shards.filter((s) => s.leader).length;
  const clock = Math.max(0, ...c.nodes.filter((n) => n.alive).map((n) => Math.abs(n.clock_offset_ms)));
  const alive = new Set(c.nodes.filter((n) => n.alive).map((n) => n.id));
  const live = Math.min(...c.shards.map((s) => s.replicas.filter((r) => alive.has(r.node)).length));
  const fewest = c.shards.length ? live : 0;
  return html`<dl class="figures">
    <${Figure} label=${t('cluster.nodes')} value=${`${up}/${c.nodes.length}`}
      tone=${up < c.nodes.length ? 'trouble' : ''} note=${t('cluster.up')} />
    <${Figure} label=${t('cluster.shards')} value=${`${led}/${c.shards.length}`}
      tone=${led < c.shards.length ? 'trouble' : ''} note=${t('cluster.led')} />
    <${Figure} label=${t('cluster.replicas')} value=${`${fewest}/${c.replication.wanted}`}
      tone=${fewest < c.replication.wanted ? 'trouble' : ''} note=${t('cluster.fewest')} />
    <${Figure} label=${t('cluster.tasks')} value=${compact(c.shards.reduce((sum, s) => sum + s.tasks, 0))} />
    <${Figure} label=${t('cluster.clock')} value=${`${number(clock, clock < 10 ? 1 : 0)} ms`}
      tone=${clock > 100 ? 'trouble' : ''} note=${t('cluster.clockNote')} />
  </dl>`;
}

function Moving({ c }) {
  const running = c.operations.filter((o) => o.state === 'running');
  if (!running.length && !c.slot_moves.length) return null;
  return html`<${Card} title=${t('moving.title')} side=${html`<a href=${href('operations')}>${t('all')}</a>`}>
    ${running.map((o) => html`<${OperationRow} key=${o.id} operation=${o} />`)}
    <${SlotMoves} moves=${c.slot_moves} />
  <//>`;
}

function Nodes({ c, refresh }) {
  const zones = new Map();
  for (const n of byName(c.nodes)) zones.set(n.zone, [...(zones.get(n.zone) || []), n]);
  return html`<${Card} title=${t('cluster.nodes')}><div class="zones">
    ${[...zones].sort(([a], [b]) => a.localeCompare(b)).map(([zone, nodes]) => html`
    <div class="zone">${(zones.size > 1 || zone) && html`<h3>${zone ? t('zone.named', { zone }) : t('zone.none')}</h3>`}
      <div class="nodes">${nodes.map((n) => html`<${NodeCard} key=${n.id} node=${n} control=${c.control}
        refresh=${refresh} />`)}</div></div>`)}</div>
  <//>`;
}

function Legend() {
  return html`<span class="legend" aria-hidden="true">
    ${['leader', 'follower', 'lagging',
      'joining'].map((k) => html`<span><i class="cell ${k}"></i>${t(`replica.${k}`)}</span>`)}</span>`;
}

function Backups({ backups }) {
  const body = backups
    ? html`<ul class="plain">
      ${['running', 'last_kept',
        'last_failed'].filter((k) => backups[k]).map((k) => html`<li><b>${t(`backup.${k}`)}</b> <time>
          ${backups[k].begun_at}
            </time> ${backups[k].place && html`<code>${backups[k].place}</code>`} ${backups[k].error
              && html`<code class="error-text">${backups[k].error}</code>`}</li>`)}</ul>`
    : html`<${Empty} title=${t('backup.none')} command="belfry backup --to belfry.backup">${t('backup.noneText')}<//>`;
  return html`<${Card} title=${t('backup.title')}>${body}<//>`;
}
