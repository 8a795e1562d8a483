// The audit log: the changes of operators, and the calls that were refused.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { lines } from '../api.js';
import { usePoll } from '../live.js';
import { canCluster } from '../session.js';
import { go, href } from '../router.js';
import { instant, number } from '../format.js';
import { useNodeNames } from '../nodes.js';
import { t } from '../i18n.js';
import { Table } from '../parts/table.js';
import { Button, Empty, awaited, Refused, Tag, millis } from '../parts/ui.js';

const spans = ['15m', '1h', '24h', '7d', '30d'];

export function Audit({ query }) {
  if (!canCluster('admin')) {
    return html`<h1>${t('nav.audit')}</h1>
      <${Empty} title=${t('role.missing')} command="belfry key create auditor --role admin --namespace '*'">
        ${t('role.admin.all')}<//>`;
  }
  return html`<${Log} query=${query} />`;
}

const shown = 500; // records on the page
const most = 5000; // records that are searched at once

// read returns the records from an instant or a cursor on, newest first, and the last line of the answer. The API has
// the oldest ones first, and so it reads on until it has all of them, or the most.
async function read(since, after, signal) {
  const records = [];
  let end = { more: true, next_cursor: after };
  while (end.more && records.length < most) {
    const before = records.length;
    const query = end.next_cursor ? { after: end.next_cursor, limit: 1000 } : { since, limit: 1000 };
    for await (const line of lines('/v1/audit', query, signal)) {
      if (line.id) records.push(line);
      else if (!line.begun) end = line;
    }
    if (records.length === before) break;
  }
  return { records: records.reverse(), end };
}

function Log({ query }) {
  const nameOf = useNodeNames();
  const since = query.get('since') || '24h';
  const after = query.get('after') || '';
  const kind = query.get('kind') || '';
  const [text, setText] = useState('');
  const poll = usePoll((signal) => read(since, after, signal), 0, [since, after]);
  const all = poll.data?.records || [];
  const found = all.filter((r) => (!kind || r.kind === kind) && matches(r, text));
  const rows = found.slice(0, shown);
  const end = poll.data?.end;
  return html`
    <header class="page"><h1>${t('nav.audit')}</h1><div class="side"><${Button} onClick=${poll.refresh}>
      ${t('audit.refresh')}<//></div></header>
    <div class="filters"><form onSubmit=${(e) => e.preventDefault()}>
      <input type="search" aria-label=${t('audit.find')} placeholder=${t('audit.find')} value=${text}
        onInput=${(e) => setText(e.target.value)} />
      <label class="choice"><span>${t('audit.since')}</span>
        <select value=${since} onChange=${(e) => go(href('audit', { since: e.target.value, kind }))}>
          ${spans.map((s) => html`<option value=${s}>${s}</option>`)}</select></label>
      <label class="choice"><span>${t('audit.kind')}</span>
        <select value=${kind} onChange=${(e) => go(href('audit', { since, kind: e.target.value }))}><option value="">
          ${t('audit.both')}</option>
        <option value="change">${t('audit.change')}</option><option value="refusal">${t('audit.refusal')}</option>
          </select></label></form></div>
    ${poll.problem && html`<${Refused} problem=${poll.problem} retry=${poll.refresh} />`}
    ${awaited(poll)}
    ${end?.more && html`<p class="warn">${t('audit.more', { n: all.length, n_text: number(all.length) })}</p>`}
    ${found.length > shown && html`<p class="muted">${t('audit.newest', { n: shown, all: number(found.length) })}</p>`}
    ${end?.lost > 0 && html`<p class="warn">${t('audit.lost', { n: end.lost, n_text: number(end.lost) })}</p>`}
    ${end?.missing.length > 0
      && html`<p class="warn">${t('audit.missing', { nodes: end.missing.map((m) => nameOf(m.node)).join(', ') })}</p>`}
    ${poll.data && !rows.length
      && html`<${Empty} title=${t('audit.empty')} command="belfry audit --since 1h">${t('audit.emptyText')}<//>`}
    ${rows.length > 0 && html`<${Rows} key=${JSON.stringify([since, after, kind, text])}
      rows=${rows} />`}
    ${end?.more && html`<nav class="pager" aria-label=${t('list.pages')}>
      <a class="button" href=${href('audit', { since, kind, after: end.next_cursor })}>${t('audit.later')}</a></nav>`}`;
}

function matches(record, text) {
  const wanted = text.trim().toLowerCase();
  return !wanted || JSON.stringify(record).toLowerCase().includes(wanted);
}

function Rows({ rows }) {
  const object = (r) => Object.entries(r.object || {}).map(([name, value]) => `${name}=${value}`).join(' ');
  return html`<${Table} caption=${t('nav.audit')} rows=${rows} rowKey=${(r) => r.id} columns=${[
    { label: t('time'), kind: 'mono', cell: (r) => html`<time dateTime=${r.time}>${instant(millis(r.time))}</time>` },
    { label: t('audit.caller'), kind: 'long',
      cell: (r) => html`${r.caller.name || r.caller.id || r.caller.kind || t('audit.nobody')} <span class="muted">
        ${r.from || ''}</span>` },
    { label: t('audit.call'), kind: 'long',
      cell: (r) => html`<code>${r.method} ${r.route}</code>
        ${r.count > 1 ? html` <${Tag}>× ${number(r.count)}<//>` : ''}` },
    { label: t('audit.object'), kind: 'long', cell: (r) => object(r) },
    { label: t('audit.fields'), kind: 'long', cell: (r) => (r.fields || []).join(', ') },
    { label: t('audit.answer'),
      cell: (r) => html`<${Tag} tone=${r.kind === 'refusal' || r.status >= 400 ? 'trouble' : ''}>
        ${r.status || ''} ${r.problem || r.outcome || ''}<//>` },
  ]} />`;
}
