// One node: its state, its replicas, its clock and disk, and the actions for operators.
import { html } from '../html.js';
import { bytes, number } from '../format.js';
import { canCluster } from '../session.js';
import { t } from '../i18n.js';
import { operateNode } from './clusteractions.js';
import { Icon } from './icon.js';
import { Bar, Button, Facts, Instant, Tag } from './ui.js';

export function NodeCard({ node: n, control, refresh }) {
  const used = n.disk_total ? (1 - n.disk_free / n.disk_total) * 100 : 0;
  return html`<article class="node ${n.alive ? '' : 'down'}">
    <header><h3>${n.name}</h3><span class="state ${n.alive ? 'delivered' : 'trouble'}">
      <${Icon} name=${n.alive ? 'check' : 'cross'} />${t(n.alive ? 'node.up' : 'node.down')}</span></header>
    <p class="tags">
      ${control.leader === n.id && html`<${Tag}>${t('node.control')}<//>`}
      ${n.order !== 'work' && html`<${Tag} tone="warning">${t(`order.${n.order}`)}<//>`}
      ${n.disk_low && html`<${Tag} tone="trouble">${t('node.diskLow')}<//>`}
      ${n.memory_full && html`<${Tag} tone="trouble">${t('node.memoryFull')}<//>`}
    </p>
    <${Facts} of=${[
    [t('node.leads'), `${number(n.leads)} / ${number(n.replicas)}`],
    [t('node.away'), n.away_since && html`<${Instant} at=${n.away_since} />`],
    [t('node.clock'), n.alive && `${n.clock_offset_ms > 0 ? '+' : ''}${number(n.clock_offset_ms, 1)} ms`],
    [t('node.disk'), n.disk_total > 0
      && html`<${Bar} part=${used}
        label=${t('node.diskUsed', { part: number(used) })} /> ${t('node.diskFree', { free: bytes(n.disk_free) })}`],
    [t('node.weight'), n.weight !== 10 && n.weight],
    [t('node.address'), html`<code>${n.http_addr}</code>`],
    [t('node.build'), n.build && html`<code>${n.build}</code>`],
  ]} />
    ${canCluster('operate') && html`<footer>
      ${n.order === 'work'
    ? html`<${Button} kind="small" onClick=${() => operateNode('drain', n, refresh)}>${t('node.drain')}…<//>
        ${n.alive ? html`<${Button} kind="small" onClick=${() => operateNode('remove', n, refresh)}>
          ${t('node.remove')}…<//>`
      : html`<${Button} kind="small" onClick=${() => operateNode('replace', n, refresh)}>${t('node.replace')}…<//>`}`
    : html`<${Button} kind="small" onClick=${() => operateNode('resume', n, refresh)}>${t('node.resume')}…<//>`}
    </footer>`}
  </article>`;
}
