// Keys that work on every page: / searches, g and a letter opens a page, ? shows them.
import { useLayoutEffect } from 'preact/hooks';
import { go, href } from './router.js';
import { showHelp } from './parts/help.js';

export const places = { o: '', t: 'tasks', s: 'schedules', q: 'queues', d: 'dead', e: 'events', c: 'cluster' };

function isTyping(target) {
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
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
      else if (event.key === '?') showHelp();
      else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
}
