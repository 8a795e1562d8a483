// One call on many tasks: counted first, asked once, and followed on the page of its operation.
import { useEffect, useState } from 'preact/hooks';
import { html } from '../html.js';
import { change, inNamespace, newKey, Problem } from '../api.js';
import { number } from '../format.js';
import { go, href } from '../router.js';
import { session } from '../session.js';
import { chipsOf } from '../search.js';
import { t, word } from '../i18n.js';
import { Form, show, Words } from './dialog.js';
import { Field, Loading, Refused } from './ui.js';

export const outcomesOf = {
  cancel: ['cancelled', 'stopped', 'already_fired'],
  move: ['moved', 'begun', 'gone'],
  fire: ['fired', 'begun', 'gone'],
  replay: ['replayed', 'not_dead', 'gone'],
  purge: ['purged', 'not_dead', 'gone'],
};

// askBulk opens the question before a bulk operation on the tasks that pass a filter.
export function askBulk(op, filter) {
  show(Bulk, { op, filter });
}

// useCount counts the matching tasks by a dry run.
function useCount(op, filter, all) {
  const [count, setCount] = useState({ matched: null, complete: false, problem: null });
  useEffect(() => {
    const abort = new AbortController();
    const body = { op, ...(all ? { all } : { filter }), ...(op === 'move' ? { by: '1h' } : {}), dry_run: true };
    change('POST', inNamespace('/operations'), body, { signal: abort.signal, timeoutMs: 30_000 }).then(
      (answer) => setCount({ ...answer, problem: null }),
      (err) => abort.signal.aborted
        || setCount({ matched: null, complete: false, problem: err instanceof Problem ? err : new Problem(0) }),
    );
    return () => abort.abort();
  }, []);
  return count;
}

function Bulk({ op, filter, close }) {
  const all = Object.keys(filter).length === 0;
  const [key] = useState(newKey);
  const [move, setMove] = useState('1h');
  const [rate, setRate] = useState('');
  const { matched, complete, problem } = useCount(op, filter, all);
  const run = async () => {
    const body = { op, ...(all ? { all } : { filter }) };
    if (op === 'move') body.by = move.trim();
    if (rate) body.per_second = Number(rate);
    const operation = await change('POST', inNamespace('/operations'), body,
      { idempotencyKey: encodeURIComponent(`${key}-${rate}-${move}`).slice(0, 255) });
    go(href(`operations/${operation.id}`));
  };
  const n = matched ?? 0;
  const danger = op === 'cancel' || op === 'purge';
  const known = matched !== null;
  const action = known ? t(`bulk.${op}.do`, { n, n_text: complete ? number(n) : `≥ ${number(n)}` })
    : t(`bulk.${op}.name`);
  return html`<${Form} title=${t(`bulk.${op}.title`)} action=${action} danger=${danger} disabled=${!known || n === 0}
    run=${run} close=${close}>
    <p>${t(`bulk.${op}.text`)}</p>
    ${all ? html`<p class="warn">${t('bulk.all', { namespace: session.value.namespace })}</p>`
      : html`<${Conditions} filter=${filter} />`}
    ${problem ? html`<${Refused} problem=${problem} />` : !known ? html`<${Loading} label=${t('bulk.counting')} />`
      : html`<p class="count" role="status"><strong>${complete ? '' : '≥ '}${number(n)}
        </strong> ${t('bulk.matched', { n })}</p>`}
    ${op === 'move' && html`<${Field} label=${t('bulk.move.by')} hint=${t('bulk.move.hint')}>
      ${(tied) => html`<input ...${tied} required value=${move} onInput=${(e) => setMove(e.target.value)}
        spellcheck=${false} />`}<//>`}
    <${Field} label=${t('bulk.rate')} hint=${t('bulk.rateHint')}>
      ${(tied) => html`<input ...${tied} type="number" min="1" max="5000" value=${rate}
        onInput=${(e) => setRate(e.target.value)} />`}<//>
    <${Words} of=${outcomesOf[op]} />
  <//>`;
}

// Conditions lists a filter in words.
export function Conditions({ filter }) {
  const lists = Object.fromEntries(Object.entries(filter).map(([name, value]) => [name, [value].flat()]));
  const chips = chipsOf(lists);
  if (!chips.length) return html`<p class="muted">${t('bulk.everything')}</p>`;
  return html`<ul class="chips">
    ${chips.map(({ name, value }) => html`<li><span class="chip">${t(`filter.${name}`)} <b>
      ${name === 'state' ? word('state', value) : value}</b></span></li>`)}</ul>`;
}
