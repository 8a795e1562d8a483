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
