// Changes of the cluster. Each shows its steps first, and is followed on the page of its operation.
import { useEffect, useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, Problem } from '../api.js';
import { bytes, number } from '../format.js';
import { go, href } from '../router.js';
import { t } from '../i18n.js';
import { Form, show } from './dialog.js';
import { Field, Loading, Refused } from './ui.js';

export function operateNode(kind, node, refresh) {
  const options = kind === 'drain' ? [{ name: 'leaders', label: t('drain.leaders') }] : [];
  show(Planned, { title: t(`node.${kind}.title`, { node: node.name }), text: t(`node.${kind}.text`),
    action: t(`node.${kind}`), method: 'POST', path: `/v1/nodes/${node.id}/${kind}`, options, danger: kind === 'remove'
      || kind === 'replace', refresh });
}

export function splitShard(shard) {
  show(Planned, { title: t('split.title', { shard: shard.id }), text: t('split.text'), action: t('split.name'),
    method: 'POST', path: `/v1/shards/${shard.id}/split` });
}

export function balance(cluster) {
  const numbers = { name: 'to', label: t('balance.to'), hint: t('balance.hint', { n: cluster.shards.length }), min: 1,
    max: 256 };
  show(Planned, { title: t('balance.title'), text: t('balance.text'), action: t('balance.name'), method: 'POST',
    path: '/v1/shards/balance', numbers });
}

export function changeReplication(cluster) {
  const numbers = { name: 'replication', label: t('replication.to'), values: [1, 3, 5],
    value: cluster.replication.wanted };
  show(Planned, { title: t('replication.title'), text: t('replication.text'), action: t('replication.name'),
    method: 'PUT', path: '/v1/cluster', numbers });
}

function Planned({ title, text, action, method, path, options = [], numbers, danger, refresh, close }) {
  const [chosen, setChosen] = useState({});
  const [count, setCount] = useState(numbers?.value ? String(numbers.value) : '');
  const body = { ...chosen, ...(numbers && count ? { [numbers.name]: Number(count) } : {}) };
  const plan = usePlan(method, path, body);
  const run = async () => {
    const operation = await change(method, path, body);
    refresh?.();
    go(href(`operations/${operation.id}`));
  };
  return html`<${Form} title=${title} action=${action} danger=${danger} disabled=${!plan.data} run=${run}
    close=${close}>
    <p>${text}</p>
    ${options.map((o) => html`<label class="check">
      <input type="checkbox" onChange=${(e) => setChosen(e.target.checked ? { [o.name]: true } : {})} /> ${o.label}
        </label>`)}
    ${numbers && html`<${Field} label=${numbers.label} hint=${numbers.hint}>${(tied) => (numbers.values
    ? html`<select ...${tied} value=${count} onChange=${(e) => setCount(e.target.value)}>
      ${numbers.values.map((v) => html`<option value=${String(v)}>${v}</option>`)}</select>`
    : html`<input ...${tied} type="number" min=${numbers.min} max=${numbers.max} value=${count}
      onInput=${(e) => setCount(e.target.value)} />`)}<//>`}
    ${plan.problem ? html`<${Refused} problem=${plan.problem} />` : plan.data ? html`<${Plan} plan=${plan.data} />`
      : html`<${Loading} label=${t('plan.loading')} />`}
  <//>`;
}

// usePlan asks for the steps, a moment after the last change of the form. Until they come there is no plan, so that
// nobody agrees to an earlier one.
function usePlan(method, path, body) {
  const [plan, setPlan] = useState({ data: null, problem: null });
  const text = JSON.stringify(body);
  useEffect(() => {
    const abort = new AbortController();
    setPlan({ data: null, problem: null });
    const id = setTimeout(() => change(method, path, { ...JSON.parse(text), preview: true },
      { signal: abort.signal }).then(
      (data) => setPlan({ data, problem: null }),
      (err) => err instanceof Problem && setPlan({ data: null, problem: err }),
    ), 150);
    return () => {
      clearTimeout(id);
      abort.abort();
    };
  }, [method, path, text]);
  return plan;
}

function Plan({ plan }) {
  if (!plan.steps.length) return html`<p class="muted">${t('plan.nothing')}</p>`;
  const line = (s) => t(`plan.${s.action}`, { shard: s.shard, node: s.node_name, from: s.from ?? '', n: s.slots ?? 0 });
  return html`<p><b>${t('plan.steps', { n: plan.steps.length })}</b>
    ${plan.bytes ? ` · ${t('plan.bytes', { size: bytes(plan.bytes) })}` : ''}</p>
    <ol class="steps" tabindex="0" aria-label=${t('plan.label')}>
      ${plan.steps.slice(0, 100).map((s) => html`<li>${line(s)}</li>`)}</ol>
    ${plan.steps.length > 100 && html`<p class="muted">${t('plan.more', { n: number(plan.steps.length - 100) })}</p>`}`;
}
