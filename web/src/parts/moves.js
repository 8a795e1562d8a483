// Operations with their progress, and slots on their way between shards.
import { html } from '../html.js';
import { bytes, compact, duration, number, percent } from '../format.js';
import { href } from '../router.js';
import { t, word } from '../i18n.js';
import { Icon } from './icon.js';
import { Bar, Instant, State, Tag } from './ui.js';

// nameOf describes an operation in words.
export function nameOf(o) {
  const params = { node: o.node_name || o.node, shard: o.shard, to: o.to, n: o.replication, slots: o.slots,
    namespace: o.namespace };
  return o.kind === 'bulk' ? t(`bulk.${o.op}.name`) : t(`kind.${o.kind}`, params);
}

export function OperationRow({ operation: o }) {
  const left = o.bytes_per_second > 0 ? (o.bytes_left / o.bytes_per_second) * 1000 : 0;
  return html`<div class="operation">
    <div class="row"><a href=${href(`operations/${o.id}`)}>${nameOf(o)}</a> <${State} state=${o.state} />
      <span class="muted"><${Instant} at=${o.began_at} /></span></div>
    <div class="row"><${Bar} part=${o.percent} label=${nameOf(o)} /> <b>${percent(o.percent)}</b>
      <span class="muted">${number(o.done)} / ${number(o.total)}
        ${o.bytes_per_second > 0 ? ` · ${bytes(o.bytes_per_second)}/s` : ''}
          ${left ? ` · ${t('moving.left', { left: duration(left) })}` : ''}</span></div>
    ${o.waits.map((reason) => html`<p class="warn"><${Icon} name="clock" />${reason}</p>`)}
  </div>`;
}

export function SlotMoves({ moves }) {
  if (!moves.length) return null;
  return html`<ul class="moves">${moves.map((m) => html`<li key=${m.number}>
    <span class="arrow"><b>${m.from}</b><${Icon} name="move" /><b>${m.to}</b></span>
    ${t('moving.slots', { n: m.slots })} · ${compact(m.tasks_copied)} ${t('moving.tasks')} · ${bytes(m.bytes_copied)}
    <${Tag}>${word('move', m.state)}<//>${m.sealed && html`<${Tag} tone="warning">${t('moving.sealed')}<//>`}
      ${m.waits && html`<${Tag} tone="trouble">${m.waits}<//>`}
  </li>`)}</ul>`;
}
