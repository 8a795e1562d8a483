// API keys: made, rotated and revoked. A key's text is shown once.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, get } from '../api.js';
import { usePoll } from '../live.js';
import { canSomewhere, session } from '../session.js';
import { isoOf } from '../format.js';
import { now } from '../clock.js';
import { t } from '../i18n.js';
import { ask, Form, show } from '../parts/dialog.js';
import { Table } from '../parts/table.js';
import { say } from '../parts/toast.js';
import { Button, Command, Empty, Field, Instant, awaited, millis, Refused, Tag } from '../parts/ui.js';

const roles = ['read', 'schedule', 'consume', 'operate', 'admin'];

export function Keys() {
  const poll = usePoll((signal) => get('/v1/keys', {}, { signal }), canSomewhere('admin') ? 5000 : 0);
  const keys = poll.data?.keys || [];
  return html`
    <header class="page"><h1>${t('nav.keys')}</h1><div class="side">
      ${canSomewhere('admin')
        && html`<${Button} kind="primary" icon="plus" onClick=${() => show(NewKey, { refresh: poll.refresh })}>
          ${t('key.new')}<//>`}</div></header>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
    ${awaited(poll)}
    ${poll.data && !keys.length
      && html`<${Empty} title=${t('keys.empty')}
        command="belfry key create admin --role admin --namespace '*' > admin.key">${t('keys.emptyText')}<//>`}
    ${keys.length > 0 && html`<${Table} caption=${t('nav.keys')} rows=${keys} rowKey=${(k) => k.id} columns=${[
    { label: t('key.name'),
      cell: (k) => html`${k.name}${k.id === session.value.caller.id ? html` <${Tag}>${t('key.yours')}<//>` : ''}` },
    { label: t('id'), kind: 'id', cell: (k) => html`<code>${k.id}</code>` },
    { label: t('key.grants'), kind: 'long', cell: (k) => html`<${Grants} grants=${k.grants} />` },
    { label: t('key.expires'),
      cell: (k) => (k.expires_at ? html`<${Expiry} at=${k.expires_at} />`
        : html`<span class="muted">${t('key.never')}</span>`) },
    { label: t('key.used'),
      cell: (k) => (k.last_used_at ? html`<${Instant} at=${k.last_used_at} />`
        : html`<span class="muted">${t('key.unused')}</span>`) },
    { label: t('actions'), kind: 'end',
      cell: (k) => html`<div class="actions">
        <${Button} kind="small" onClick=${() => show(Rotate, { of: k, refresh: poll.refresh })}>${t('rotate.name')}…<//>
      <${Button} kind="small danger" onClick=${() => revoke(k, poll.refresh)}>${t('revoke.name')}…<//></div>` },
  ]} />`}`;
}

function Expiry({ at }) {
  return millis(at) < now() ? html`<${Tag} tone="warning">${t('key.expired')}<//>` : html`<${Instant} at=${at} />`;
}

export function Grants({ grants }) {
  if (!grants.length) return html`<span class="muted">${t('key.noGrants')}</span>`;
  const limits = (g) => [...(g.queues || []).map((q) => `${t('queue')} ${q}`),
    ...(g.ids || []).map((i) => `id ${i}`)].join(', ');
  return html`<span class="tags">
    ${grants.map((g) => html`<${Tag}><b>${g.role}</b> ${g.namespace === '*' ? t('key.all') : g.namespace}
      ${limits(g) ? ` (${limits(g)})` : ''}<//>`)}</span>`;
}

function revoke(k, refresh) {
  ask({
    title: t('revoke.title', { name: k.name }), text: t('revoke.text'), action: t('revoke.do'), danger: true,
    run: async () => {
      await change('DELETE', `/v1/keys/${k.id}`);
      say(t('revoke.done', { name: k.name }));
      refresh();
    },
  });
}

function NewKey({ refresh, close }) {
  const first = session.value.caller.kind === 'local';
  const [form, setForm] = useState({ name: '', role: first ? 'admin' : 'read', namespace: first ? '*'
    : session.value.namespace, queues: '', ids: '', expires: '' });
  const [made, setMade] = useState(null);
  const put = (name) => (event) => setForm((f) => ({ ...f, [name]: event.target.value }));
  const run = async () => {
    const list = (text) => text.split(/[\s,]+/).filter(Boolean);
    const grant = { role: form.role, namespace: form.namespace };
    if (list(form.queues).length) grant.queues = list(form.queues);
    if (list(form.ids).length) grant.ids = list(form.ids);
    const body = { name: form.name.trim(), grants: [grant] };
    if (form.expires) body.expires_at = isoOf(form.expires);
    try {
      setMade(await change('POST', '/v1/keys', body, { once: true }));
    } finally {
      refresh(); // the key may be there although its answer was lost
    }
    return false;
  };
  if (made) return html`<${Made} made=${made} close=${close} />`;
  const text = (name, label, hint, more) => html`<${Field} label=${t(label)} hint=${hint && t(hint)}>
    ${(tied) => html`<input ...${tied} ...${more} value=${form[name]} onInput=${put(name)} autocomplete="off"
      spellcheck=${false} />`}<//>`;
  const spaces = ['*', ...session.value.namespaces];
  return html`<${Form} title=${t('key.new')} action=${t('key.make')} run=${run} close=${close}>
    ${first && html`<p class="warn">${t('key.first')}</p>`}
    <div class="fields">
      ${text('name', 'key.name', 'key.nameHint', { required: true, maxlength: 100 })}
      <${Field} label=${t('key.role')} hint=${t(`role.${form.role}`)}>
        ${(tied) => html`<select ...${tied} value=${form.role} onChange=${put('role')}>
          ${roles.map((r) => html`<option value=${r}>${r}</option>`)}</select>`}<//>
      <${Field} label=${t('namespace')}>
        ${(tied) => html`<select ...${tied} value=${form.namespace} onChange=${put('namespace')}>
          ${spaces.map((n) => html`<option value=${n}>${n === '*' ? t('key.allSpaces') : n}</option>`)}</select>`}<//>
      ${text('queues', 'key.queues', 'key.queuesHint', { placeholder: 'orders*' })}
      ${text('ids', 'key.ids', 'key.queuesHint', { placeholder: 'order-*' })}
      ${text('expires', 'key.expires', 'key.expiresHint', { type: 'datetime-local', step: 1 })}
    </div>
  <//>`;
}

// Made shows the text of a key, once.
function Made({ made, close }) {
  return html`<h2 id="dialog-title">${t('key.made', { name: made.name })}</h2><div class="body">
    <p>${t('key.once')}</p><${Command} text=${made.key} /></div>
    <footer><${Button} kind="primary" onClick=${close}>${t('key.kept')}<//></footer>`;
}

function Rotate({ of: k, refresh, close }) {
  const [overlap, setOverlap] = useState('24h');
  const [made, setMade] = useState(null);
  const run = async () => {
    try {
      setMade(await change('POST', `/v1/keys/${k.id}/rotate`, { overlap: overlap.trim() }, { once: true }));
    } finally {
      refresh();
    }
    return false;
  };
  if (made) return html`<${Made} made=${made} close=${close} />`;
  return html`<${Form} title=${t('rotate.title', { name: k.name })} action=${t('rotate.do')} run=${run} close=${close}>
    <p>${t('rotate.text')}</p>
    <${Field} label=${t('rotate.overlap')} hint=${t('rotate.hint')}>
      ${(tied) => html`<input ...${tied} required value=${overlap} onInput=${(e) => setOverlap(e.target.value)} />`}<//>
  <//>`;
}
