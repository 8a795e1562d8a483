// Filters of a list: a box to type them, and a chip for each that is set. They live in the address.
import { useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { shortInstant } from '../format.js';
import { go, href } from '../router.js';
import { Problem } from '../api.js';
import { isFilter, pairOf, readLabels, writeLabels } from '../labels.js';
import { chipsOf, parseSearch, states, typoOf, without } from '../search.js';
import { t, word } from '../i18n.js';
import { isoOf } from '../format.js';
import { now } from '../clock.js';
import { Button, Field } from './ui.js';
import { Icon } from './icon.js';
import { Form, show } from './dialog.js';

// Filters shows the filters of a page. names are the filters of its list.
export function Filters({ page, filters, names }) {
  const box = useRef(null);
  const set = (next) => go(href(page, next));
  const [typo, setTypo] = useState(null);
  const add = (event) => {
    event.preventDefault();
    const found = typoOf(box.current.value);
    setTypo(found);
    if (found) return;
    const typed = parseSearch(box.current.value);
    const taken = Object.fromEntries(Object.entries(typed).filter(([name]) => names.includes(name)));
    set(merge(filters, taken));
    box.current.value = '';
  };
  const chips = chipsOf(filters);
  return html`<div class="filters">
    <form onSubmit=${add}>
      <input ref=${box} type="search" aria-label=${t('filter.add')} placeholder=${t(hintOf(names))} autocomplete="off"
        spellcheck=${false} />
      <${Button} type="submit">${t('filter.add')}<//>
      <${Button} kind="quiet" onClick=${() => show(Choose, { names, filters, set })}>${t('filter.more')}<//>
    </form>
    <${Typo} typo=${typo} box=${box} clear=${() => setTypo(null)} />
    ${chips.length > 0 && html`<ul class="chips" aria-label=${t('filter.set')}>
      ${chips.map((chip) => html`<li><${Chip} chip=${chip} remove=${() => set(without(filters, chip))} /></li>`)}
      <li><a href=${href(page)}>${t('filter.clear')}</a></li>
    </ul>`}
  </div>`;
}

// Typo names a misspelt word of a search box, and puts the one that was meant in its place.
export function Typo({ typo, box, clear }) {
  if (!typo) return null;
  const mend = () => {
    box.current.value = box.current.value.replace(typo.part, typo.instead);
    clear();
    box.current.focus();
  };
  return html`<p class="typo" role="alert">${t('search.typo', { part: typo.part })}
    ${' '}<${Button} kind="small" onClick=${mend}>${typo.instead}<//></p>`;
}

function hintOf(names) {
  if (names.includes('state')) return 'filter.hint';
  return names.includes('label') ? 'filter.hintLabel' : 'filter.hintShort';
}

// merge adds filters. Labels and states come together; of the others there is one.
function merge(filters, added) {
  const sum = { ...filters };
  for (const [name, values] of Object.entries(added)) {
    const list = [values].flat();
    sum[name] = name === 'label' || name === 'state' ? [...new Set([...(filters[name] || []), ...list])]
      : list.slice(0, 1);
  }
  return sum;
}

function Chip({ chip, remove }) {
  const text = `${t(`filter.${chip.name}`)} ${shown(chip)}`;
  return html`<span class="chip">${t(`filter.${chip.name}`)} <b>${shown(chip)}</b>
    <button type="button" onClick=${remove} aria-label=${t('filter.remove', { filter: text })}><${Icon} name="cross" />
      </button></span>`;
}

function shown({ name, value }) {
  if (name === 'state') return word('state', value);
  if (name.startsWith('due_')) return Number.isNaN(Date.parse(value)) ? value : shortInstant(Date.parse(value));
  return value;
}

// Choose is the form with a control for each filter.
function Choose({ names, filters, set, close }) {
  const form = useRef(null);
  const value = (name) => filters[name]?.[0] || '';
  const apply = () => {
    const data = new FormData(form.current.closest('form'));
    const next = {};
    for (const name of names) {
      const values = data.getAll(name).map((v) => (name.startsWith('due_') && v ? isoOf(v) : v));
      const kept = name === 'label' ? labelsIn(values[0]) : values.map((v) => v.trim()).filter(Boolean);
      if (kept.length) next[name] = kept;
    }
    set(next);
  };
  const span = (ms) => {
    set({ ...filters, due_after: [new Date(now()).toISOString()], due_before: [new Date(now() + ms).toISOString()] });
    close();
  };
  return html`<${Form} title=${t('filter.more')} action=${t('filter.apply')} run=${apply} close=${close}>
    <div class="fields" ref=${form}>
      ${names.includes('prefix') && html`<${Text} name="prefix" value=${value('prefix')} />`}
      ${names.includes('queue') && html`<${Text} name="queue" value=${value('queue')} />`}
      ${names.includes('label')
        && html`<${Text} name="label" value=${writeLabels((filters.label || []).map(pairOf))}
          hint=${t('filter.labelHint')} />`}
      ${names.includes('state') && html`<fieldset class="checks"><legend>${t('filter.state')}</legend>
        ${states.map((s) => html`<label>
          <input type="checkbox" name="state" value=${s}
            defaultChecked=${filters.state?.includes(s)} /> ${word('state', s)}</label>`)}
      </fieldset>`}
      ${names.includes('due_after') && html`
        <${Text} name="due_after" type="datetime-local" /><${Text} name="due_before" type="datetime-local" />
        <div class="row"><${Button} kind="small" onClick=${() => span(3600e3)}>${t('filter.nextHour')}<//>
        <${Button} kind="small" onClick=${() => span(86400e3)}>${t('filter.nextDay')}<//></div>`}
    </div>
  <//>`;
}

// labelsIn returns the labels in a text as filters of the API.
function labelsIn(text) {
  const { pairs, rest } = readLabels(text);
  const part = rest || pairs.find(([name]) => !isFilter(name))?.[0];
  if (part) throw new Problem(400, { title: t('labels.wrong', { part }) });
  return pairs.map(([name, value]) => `${name}=${value}`);
}

function Text({ name, value = '', type = 'text', hint }) {
  return html`<${Field} label=${t(`filter.${name}`)} hint=${hint}>
    ${(tied) => html`<input ...${tied} name=${name} type=${type} step=${type === 'text' ? undefined : 1}
      defaultValue=${value} autocomplete="off" spellcheck=${false} />`}
  <//>`;
}
