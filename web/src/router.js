// The router: paths below /ui/ in the browser's history. The query holds filters and the namespace, so that an address
// can be sent to a colleague.
import { newStore, useStore } from './store.js';
import { session } from './session.js';
import { searchOf } from './api.js';

const base = '/ui/';

function read() {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : '';
  return { path: path.replace(/\/+$/, ''), query: new URLSearchParams(location.search) };
}

export const route = newStore(read());
export const useRoute = () => useStore(route);

addEventListener('popstate', () => route.set(read()));

// href returns the address of a page. The address keeps the namespace, unless it is the caller's own.
export function href(path, query = {}) {
  const search = searchOf(query);
  const { namespace, caller } = session.value;
  if (namespace && caller && namespace !== caller.namespace && !search.has('ns')) search.set('ns', namespace);
  const text = search.toString();
  return base + path + (text ? `?${text}` : '');
}

export function go(address, { replace = false } = {}) {
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  route.set(read());
}

// follow takes clicks on the page's own links, so that they do not load the page anew.
export function follow(event) {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button !== 0 || link.target || link.hasAttribute('download')) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(base) || url.hash) return;
  event.preventDefault();
  go(url.pathname + url.search);
  scrollTo(0, 0);
}

// match finds the page of a path in a table of patterns, such as `tasks/:id`. Its parameters are decoded.
export function match(table, path) {
  const parts = path.split('/');
  for (const [pattern, page] of table) {
    const names = pattern.split('/');
    if (names.length !== parts.length) continue;
    const params = {};
    const fits = names.every((name, i) => {
      if (!name.startsWith(':')) return name === parts[i];
      params[name.slice(1)] = decode(parts[i]);
      return parts[i] !== '';
    });
    if (fits) return { page, params };
  }
  return null;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
