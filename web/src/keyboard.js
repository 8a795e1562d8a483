// Keys that work on every page: / searches, g and a letter opens a page, j and k go through the rows of a list, x
// selects the row, ? shows them.
import { useLayoutEffect } from 'preact/hooks';
import { go, href } from './router.js';
import { showHelp } from './parts/help.js';

export const places = { o: '', t: 'tasks', s: 'schedules', q: 'queues', d: 'dead', e: 'events', c: 'cluster',
  p: 'operations', k: 'keys', n: 'namespaces', a: 'audit' };

function isTyping(target) {
  if (/^(checkbox|radio)$/.test(target.type)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

const rows = () => [...document.querySelectorAll('main .table tbody tr')];
const isHere = (row) => row.contains(document.activeElement);

// moveRow moves the focus to the link of the next row, or of the one before.
function moveRow(by) {
  const list = rows();
  const at = list.findIndex(isHere);
  const next = at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by));
  list[next]?.querySelector('a, button')?.focus();
  list[next]?.scrollIntoView({ block: 'nearest' });
}

export function useKeyboard() {
  useLayoutEffect(() => { // before the page is drawn, so that no key is lost
    let waits = 0; // until when a letter after g counts
    const press = (event) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)
        || document.querySelector('dialog[open]')) return;
      const follows = Date.now() < waits;
      waits = 0;
      if (follows && event.key in places) go(href(places[event.key]));
      else if (event.key === 'g') waits = Date.now() + 1500;
      else if (event.key === '/') document.getElementById('search')?.focus();
      else if (event.key === 'j' || event.key === 'k') moveRow(event.key === 'j' ? 1 : -1);
      else if (event.key === 'x') rows().find(isHere)?.querySelector('input[type="checkbox"]')?.click();
      else if (event.key === '?') showHelp();
      else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
}
