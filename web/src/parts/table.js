// Tables, which become cards on a narrow screen, and lists that are read page by page.
import { Fragment } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { inNamespace, get } from '../api.js';
import { usePoll } from '../live.js';
import { href } from '../router.js';
import { t } from '../i18n.js';
import { Icon } from './icon.js';
import { Button, Empty, Loading, Refused } from './ui.js';

// Table shows rows. Each column has a label and a function that draws a row's cell; the first is the row's name. A column
// that the list can be sorted by has the address of that in sort. While
// the pointer or the focus is in the table, each row keeps its place, so that a click hits the row that it aims at.
// selection, from useSelection, gives each row a checkbox.
export function Table({ caption, columns, rows, rowKey, selection }) {
  const shown = columns.filter(Boolean);
  const held = useHeldOrder(rows, rowKey);
  return html`<div class="table" ...${held.ways}><div class="table-frame"><table role="table">
    <caption class="hidden">${caption}</caption>
    <thead role="rowgroup"><tr role="row">
      ${selection && html`<th role="columnheader" scope="col" class="pick"><input type="checkbox"
        aria-label=${t('select.all')} checked=${selection.ids.size > 0}
        onChange=${(e) => selection.set(e.target.checked ? held.rows.map(rowKey) : [])} /></th>`}
      ${shown.map((c) => html`<th role="columnheader" scope="col" class=${c.kind}
        aria-sort=${c.sorted ? 'ascending' : undefined}>${c.sort ? html`<a href=${c.sort}>${c.label}
        ${c.sorted && html`<${Icon} name="down" />`}</a>` : c.label}</th>`)}</tr></thead>
    <tbody role="rowgroup">${held.rows.map((row) => html`<tr role="row" key=${rowKey(row)}
      class=${held.gone.has(rowKey(row)) ? 'gone' : undefined}>
      ${selection && html`<td role="cell" class="pick"><input type="checkbox"
        aria-label=${t('select.row', { id: rowKey(row) })} checked=${selection.ids.has(rowKey(row))}
        onChange=${() => selection.toggle(rowKey(row))} /></td>`}
      ${shown.map((c, i) => (i === 0
    ? html`<th role="rowheader" scope="row" class=${c.kind}>${c.cell(row)}</th>`
    : html`<td role="cell" class=${c.kind} data-label=${c.label} onMouseEnter=${nameWhole}>${c.cell(row)}</td>`))}
    </tr>`)}</tbody>
  </table></div>
  ${held.changed && html`<p class="changed" role="status"><span>${held.changed}</span>
    <${Button} kind="small" onClick=${held.sort}>${t('table.sort')}<//></p>`}
  </div>`;
}

// nameWhole shows the whole text of a cell that is cut on hover.
function nameWhole({ currentTarget: cell }) {
  if (cell.scrollWidth > cell.clientWidth) cell.title = cell.textContent;
}

// useSelection keeps the keys of the selected rows of a list. Another page of the list, or another filter, has none.
export function useSelection(list) {
  const [state, setState] = useState({ of: '', ids: new Set() });
  const of = list.data?.answers;
  const ids = state.of === of ? state.ids : new Set();
  const set = (keys) => setState({ of, ids: new Set(keys) });
  return { ids, set, toggle: (key) => set(ids.has(key) ? [...ids].filter((k) => k !== key) : [...ids, key]) };
}

// useHeldOrder returns the rows in their order of before while the pointer or the focus of the keyboard is in an element
// with the attributes in ways. Rows that have gone stay then, and new ones wait; changed says how many, and sort shows
// them.
function useHeldOrder(rows, keyOf) {
  const { current: held } = useRef({ pointer: false, rows: [] });
  const frame = useRef(null);
  const [, draw] = useState(0);
  const fresh = new Map(rows.map((row) => [keyOf(row), row]));
  const frozen = held.pointer || Boolean(frame.current?.querySelector(':focus-visible'));
  held.rows = frozen ? held.rows.map((row) => fresh.get(keyOf(row)) || row) : rows;
  const keys = held.rows.map(keyOf);
  const known = new Set(keys);
  const stayed = keys.filter((key) => fresh.has(key));
  const order = [...fresh.keys()].filter((key) => known.has(key));
  const counts = { moved: stayed.filter((key, i) => key !== order[i]).length, fresh: fresh.size - order.length,
    gone: keys.length - stayed.length };
  return {
    rows: held.rows,
    gone: new Set(keys.filter((key) => !fresh.has(key))),
    changed: Object.entries(counts).filter(([, n]) => n > 0).map(([name, n]) => t(`table.${name}`, { n })).join(' · '),
    sort: () => {
      held.rows = rows;
      draw((n) => n + 1);
    },
    ways: {
      ref: frame,
      onPointerEnter: () => { held.pointer = true; },
      onPointerLeave: () => { held.pointer = false; },
    },
  };
}

const budgetMs = 4000; // for pages without a match

// collect reads pages of a list until one has a row, the list ends, or the time is over. A page of the API may be empty
// and still have a cursor.
async function collect(path, query, name, signal) {
  const begin = Date.now();
  let { cursor } = query;
  for (;;) {
    const page = await get(inNamespace(path), { ...query, cursor }, { signal });
    cursor = page.next_cursor;
    if (page[name].length || !cursor || Date.now() - begin > budgetMs) {
      return { rows: page[name], next: cursor, answers: JSON.stringify(query) };
    }
  }
}

// useList reads the page of a list that the address names by its cursor.
export function useList(path, name, query, every) {
  const poll = usePoll((signal) => collect(path, query, name, signal), every, [path, JSON.stringify(query)]);
  return { ...poll, rows: poll.data?.rows || [], next: poll.data?.next || null };
}

// List shows a page of a list, or the purpose of an empty one, with the links to the other pages.
// order is the order of the list, where that is not the page's own.
export function List({ list, empty, page, query, order, cursor, children }) {
  const filtered = Object.keys(query).length > 0;
  if (!list.data && list.problem) return html`<${Refused} problem=${list.problem} retry=${list.refresh} />`;
  if (!list.data) return html`<${Loading} />`;
  return html`
    ${list.problem && html`<${Refused} problem=${list.problem} retry=${list.refresh} />`}
    ${list.rows.length > 0 && html`<${Fragment} key=${list.data.answers}>${children}<//>`}
    ${!list.rows.length && !list.next && !cursor && (filtered ? html`<${NoMatch} page=${page} />` : empty)}
    ${!list.rows.length && list.next && html`<p class="muted">${t('list.searching')}</p>`}
    ${!list.rows.length && !list.next && cursor && html`<p class="muted">${t('list.end')}</p>`}
    <nav class="pager" aria-label=${t('list.pages')}>
      ${cursor && html`<a class="button" href=${href(page, { ...query, order })}>${t('list.first')}</a>`}
      ${list.next && html`<a class="button" href=${href(page, { ...query, order, cursor: list.next })}>
        ${list.rows.length ? t('list.next') : t('list.searchOn')}</a>`}
    </nav>`;
}

function NoMatch({ page }) {
  return html`<${Empty} title=${t('list.none')}
    action=${html`<a class="button" href=${href(page)}>${t('filter.clear')}</a>`}>${t('list.noneHint')}<//>`;
}
