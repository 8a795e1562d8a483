// The text of the search box: words of the form name:value set filters, anything else is the beginning of an id.

const states = ['scheduled', 'ready', 'firing', 'retrying', 'delivered', 'dead', 'cancelled'];

export const filterNames = ['prefix', 'queue', 'state', 'label', 'due_after', 'due_before'];

export { states };

const words = /(?:"(?:[^"\\]|\\["\\])*"|\S)+/g;
const unquoted = (text) => text.replace(/"((?:[^"\\]|\\["\\])*)"/g, (_, inner) => inner.replace(/\\(.)/g, '$1'));

// parseSearch returns the query parameters of the page of tasks. Spaces belong to a word within quotes:
// customer="big one".
export function parseSearch(text) {
  const query = {};
  const add = (name, value) => {
    query[name] = [...(query[name] || []), value];
  };
  for (const part of (text.match(words) || []).map(unquoted)) {
    const [, name, value] = part.match(/^(state|queue|label|id|prefix):(.+)$/) || [];
    if (name === 'state' || name === 'label') add(name, value);
    else if (name === 'queue') query.queue = [value];
    else if (name) query.prefix = [value];
    else if (states.includes(part)) add('state', part);
    else if (part.includes('=')) add('label', part);
    else query.prefix = [part];
  }
  return query;
}

const fields = ['state', 'queue', 'label', 'prefix'];

// typoOf returns the first word of the search box whose field or state is misspelt, with the word that was meant, or
// null. A word in quotes is meant as it stands, since ids may have colons.
export function typoOf(text) {
  for (const part of text.match(words) || []) {
    const [, name, value] = part.match(/^([a-z_]+):(.+)$/) || [];
    if (!name || ['id', 'label', 'queue', 'prefix'].includes(name)) continue;
    if (name === 'state') {
      if (!states.includes(value)) return { part, instead: `state:${nearest(value, states, Infinity)}` };
      continue;
    }
    const field = nearest(name, fields, 2);
    if (field) return { part, instead: `${field}:${value}` };
  }
  return null;
}

// nearest returns the word of a list with the fewest edits from another one, or undefined if they are more than most.
function nearest(word, list, most) {
  const [best] = list.map((w) => [edits(word, w), w]).filter(([n]) => n <= most).sort((a, b) => a[0] - b[0]);
  return best?.[1];
}

// edits counts the letters to insert, remove, replace or swap with their neighbours that make one word another.
function edits(a, b) {
  const d = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    d[i] = [i];
    for (let j = 1; j <= b.length; j++) {
      d[i][j] = Math.min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      if (a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) d[i][j] = Math.min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.length][b.length];
}

// filtersOf reads the filters in an address.
export function filtersOf(query) {
  const filters = {};
  for (const name of filterNames) {
    const values = query.getAll(name).filter(Boolean);
    if (values.length) filters[name] = values;
  }
  return filters;
}

// chipsOf lists the filters, one chip each.
export function chipsOf(filters) {
  return filterNames.flatMap((name) => (filters[name] || []).map((value) => ({ name, value })));
}

// without returns the filters without one value.
export function without(filters, { name, value }) {
  const rest = { ...filters, [name]: filters[name].filter((v) => v !== value) };
  if (!rest[name].length) delete rest[name];
  return rest;
}

// bulkFilter returns the filter of a bulk operation. Values that may not repeat are single there.
export function bulkFilter(filters) {
  const filter = {};
  for (const [name, values] of Object.entries(filters)) {
    filter[name] = name === 'label' || name === 'state' ? values : values[0];
  }
  return filter;
}
