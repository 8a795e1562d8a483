// The shards as a grid: a row each, a column for each node, and a mark where a replica is.
import { html } from '../html.js';
import { bytes, compact, number, percent } from '../format.js';
import { byName } from '../nodes.js';
import { canCluster } from '../session.js';
import { t } from '../i18n.js';
import { splitShard } from './clusteractions.js';
import { Button, Tag } from './ui.js';

const lagging = 1000; // log entries behind the leader

// kindOf names the kind of a replica. Lag counts from the leader's applied entry.
function kindOf(replica, shard, node) {
  if (!node.alive) return 'down';
  if (replica.node === shard.leader) return 'leader';
  if (!replica.voter || replica.received !== undefined) return 'joining';
  return lagOf(replica, shard) > lagging ? 'lagging' : 'follower';
}

function lagOf(replica, shard) {
  const leader = shard.replicas.find((r) => r.node === shard.leader);
  return leader ? Math.max(0, leader.applied - replica.applied) : 0;
}

export function ShardGrid({ cluster }) {
  const nodes = byName(cluster.nodes);
  return html`<div class="table-frame shards" tabindex="0" role="group" aria-label=${t('shards.title')}>
    <table class="plain grid">
    <caption class="hidden">${t('shards.title')}</caption>
    <thead><tr><th scope="col">${t('shard')}</th>
      ${nodes.map((n) => html`<th scope="col" class=${n.alive ? '' : 'trouble'}>${n.name}</th>`)}
      <th scope="col" class="n">${t('cluster.tasks')}</th><th scope="col" class="n">${t('shards.size')}</th>
        <th scope="col" class="n">${t('shards.slots')}</th><th scope="col" class="n">${t('shards.term')}</th>
          <th scope="col">${t('shards.step')}</th></tr></thead>
    <tbody>${cluster.shards.map((s) => html`<tr key=${s.id}><th scope="row">${s.id}</th>
      ${nodes.map((n) => html`<td>${mark(s, n)}</td>`)}
      <td class="n">${compact(s.tasks)}</td><td class="n">${bytes(s.bytes)}</td><td class="n">
        ${number(s.slots.reduce((sum, r) => sum + r.end - r.first, 0))}</td><td class="n">${number(s.term)}</td>
      <td><${Step} shard=${s} /></td></tr>`)}</tbody>
  </table></div>`;
}

function mark(shard, node) {
  const replica = shard.replicas.find((r) => r.node === node.id);
  const wanted = shard.target.includes(node.id);
  if (!replica) return wanted
    ? html`<i class="cell wanted" title=${t('replica.wanted')}></i><span class="hidden">${t('replica.wanted')}</span>`
    : html`<span class="muted" aria-hidden="true">·</span>`;
  const kind = kindOf(replica, shard, node);
  const lag = lagOf(replica, shard);
  const words = [t(`replica.${kind}`), replica.state, lag > 0 && t('replica.lag', { n: number(lag) }),
    replica.received !== undefined && percent(replica.received * 100), replica.diverged
      && t('replica.diverged')].filter(Boolean).join(', ');
  return html`<i class="cell ${kind} ${replica.diverged ? 'diverged' : ''}" title=${words}></i><span class="hidden">
    ${words}</span>`;
}

function Step({ shard }) {
  if (!shard.leader) return html`<${Tag} tone="trouble">${t('shards.noLeader')}<//>`;
  if (shard.waits) return html`<${Tag} tone="warning">${shard.waits}<//>`;
  if (shard.step) return html`<${Tag}>${t(`step.${shard.step}`)}<//>`;
  return canCluster('operate')
    ? html`<${Button} kind="small quiet" onClick=${() => splitShard(shard)}
      aria-label=${t('split.named', { shard: shard.id })}>${t('split.name')}…<//>` : '';
}
