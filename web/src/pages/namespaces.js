// Namespaces, with their quotas and the use of these.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, get } from '../api.js';
import { usePoll } from '../live.js';
import { canCluster, session } from '../session.js';
import { go, href } from '../router.js';
import { bytes, compact, number } from '../format.js';
import { t } from '../i18n.js';
import { Form, show } from '../parts/dialog.js';
import { say } from '../parts/toast.js';
import { Bar, Button, Card, Facts, Field, Instant, awaited, Refused, Tag } from '../parts/ui.js';

const quotas = ['max_pending', 'max_bytes', 'max_payload', 'schedules_per_second', 'calls_per_second', 'max_consumers',
  'max_queues', 'weight'];
const usedOf = { max_pending: 'pending', max_bytes: 'bytes', schedules_per_second: 'schedules_per_second',
  calls_per_second: 'calls_per_second', max_consumers: 'consumers', max_queues: 'queues' };
const isBytes = (name) => name === 'max_bytes' || name === 'max_payload';

export function Namespaces() {
  const poll = usePoll((signal) => get('/v1/namespaces', {}, { signal }), 5000);
  const list = poll.data?.namespaces || [];
  return html`
    <header class="page"><h1>${t('nav.namespaces')}</h1><div class="side">
      ${canCluster('admin')
        && html`<${Button} kind="primary" icon="plus" onClick=${() => show(Edit, { refresh: poll.refresh })}>
          ${t('ns.new')}<//>`}</div></header>
    <p class="muted">${t('ns.text')}</p>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
    ${awaited(poll)}
    <div class="cards">${list.map((n) => html`<${Namespace} key=${n.name} of=${n} refresh=${poll.refresh} />`)}</div>`;
}

function Namespace({ of: known, refresh }) {
  const poll = usePoll((signal) => get(`/v1/namespaces/${known.name}`, {}, { signal }), known.state === 'active' ? 5000
    : 0, [known.name]);
  const n = poll.data || known;
  const used = n.used || {};
  const rows = quotas.filter((q) => n[q] !== undefined || used[usedOf[q]] !== undefined);
  return html`<${Card} title=${n.name}
    side=${n.state !== 'active' ? html`<${Tag} tone="warning">${t('ns.deleting')}<//>`
      : n.name === session.value.namespace ? html`<${Tag}>${t('ns.shown')}<//>` : ''}>
    <${Facts} of=${rows.map((q) => [t(`quota.${q}`),
      html`<${Quota} name=${q} limit=${n[q]} used=${used[usedOf[q]]} />`])} />
    ${used.dead > 0 && html`<p><${Tag} tone="trouble">${t('ns.dead', { n: used.dead, n_text: number(used.dead) })}<//>
      </p>`}
    ${n.created_at && html`<p class="muted">${t('created')} <${Instant} at=${n.created_at} /></p>`}
    <footer class="row"><${Button} kind="small" onClick=${() => go(href('', { ns: n.name }))}>${t('ns.open')}<//>
      ${canCluster('admin') && n.state === 'active'
        && html`<${Button} kind="small" onClick=${() => show(Edit, { of: n, refresh })}>${t('ns.quotas')}…<//>
        ${n.name !== 'default'
          && html`<${Button} kind="small danger" onClick=${() => show(Remove, { of: n })}>${t('delete')}…<//>`}`}
            </footer>
  <//>`;
}

function Quota({ name, limit, used }) {
  const text = (v) => (isBytes(name) ? bytes(v) : v < 100 ? number(v, 2) : compact(v));
  if (used === undefined) return text(limit);
  if (limit === undefined) return html`${text(used)} <span class="muted">${t('ns.noLimit')}</span>`;
  return html`${text(used)} / ${text(limit)} <${Bar} part=${(used / limit) * 100} label=${t(`quota.${name}`)} />`;
}

function Edit({ of: n, refresh, close }) {
  const [form, setForm] = useState(() => ({ name: n?.name || '',
    ...Object.fromEntries(quotas.map((q) => [q, n?.[q] === undefined ? '' : String(n[q])])) }));
  const put = (name) => (event) => setForm((f) => ({ ...f, [name]: event.target.value }));
  const run = async () => {
    const body = Object.fromEntries(quotas.filter((q) => form[q] !== '').map((q) => [q, Number(form[q])]));
    await change('PUT', `/v1/namespaces/${encodeURIComponent(form.name.trim())}`, body);
    const name = form.name.trim();
    if (!session.value.namespaces.includes(name)) session.set({ namespaces: [...session.value.namespaces,
      name].sort() });
    say(t('ns.saved', { name }));
    refresh();
  };
  return html`<${Form} title=${n ? t('ns.edit', { name: n.name }) : t('ns.new')} action=${t('save')} run=${run}
    close=${close}>
    <div class="fields">
      ${!n && html`<${Field} label=${t('namespace')} hint=${t('ns.nameHint')}>
        ${(tied) => html`<input ...${tied} required value=${form.name} onInput=${put('name')} spellcheck=${false} />`}
          <//>`}
      <div class="pairs">${quotas.map((q) => html`<${Field} key=${q} label=${t(`quota.${q}`)}
        hint=${isBytes(q) && form[q] ? bytes(Number(form[q])) : ''}>
        ${(tied) => html`<input ...${tied} type="number" min="0.01" step="any"
          placeholder=${q === 'weight' ? '1' : t('ns.noLimit')} value=${form[q]} onInput=${put(q)} />`}<//>`)}</div>
    </div>
  <//>`;
}

// Remove asks for the namespace's name, since its tasks cannot be brought back.
function Remove({ of: n, close }) {
  const [typed, setTyped] = useState('');
  const run = async () => {
    const operation = await change('DELETE', `/v1/namespaces/${n.name}`);
    session.set({ namespaces: session.value.namespaces.filter((name) => name !== n.name) });
    go(href(`operations/${operation.id}`));
  };
  return html`<${Form} title=${t('ns.remove', { name: n.name })} action=${t('delete')} danger
    disabled=${typed !== n.name} run=${run} close=${close}>
    <p>${t('ns.removeText', { n: n.used?.pending ?? 0, n_text: number(n.used?.pending ?? 0) })}</p>
    <${Field} label=${t('ns.type', { name: n.name })}>
      ${(tied) => html`<input ...${tied} value=${typed} onInput=${(e) => setTyped(e.target.value)} autocomplete="off"
        spellcheck=${false} />`}<//>
  <//>`;
}
