// Short messages about finished actions. Screen readers announce them.
import { html } from '../html.js';
import { Problem } from '../api.js';
import { newStore, useStore } from '../store.js';
import { t } from '../i18n.js';

const toasts = newStore({ list: [] });
let last = 0;

const drop = (id) => toasts.set({ list: toasts.value.list.filter((m) => m.id !== id) });

// say shows a message for some seconds. The tone is empty or `trouble`. undo takes the action back: its button is there
// for ten seconds.
export function say(text, tone = '', undo = null) {
  const id = ++last;
  toasts.set({ list: [...toasts.value.list.slice(-3), { id, text, tone, undo }] });
  setTimeout(() => drop(id), undo ? 10_000 : tone ? 9000 : 5000);
}

// attempt makes a change outside a dialog, and shows the problem if it is refused.
export async function attempt(run) {
  try {
    await run();
  } catch (err) {
    if (!(err instanceof Problem)) throw err;
    say(err.message || t('problem.unreachable'), 'trouble');
  }
}

export function Toasts() {
  const { list } = useStore(toasts);
  const takeBack = (m) => {
    drop(m.id);
    attempt(m.undo);
  };
  return html`<div class="toasts" role="status" aria-live="polite">
    ${list.map((m) => html`<p key=${m.id} class=${m.tone}>${m.text}
      ${m.undo && html` <button type="button" onClick=${() => takeBack(m)}>${t('undo')}</button>`}</p>`)}
  </div>`;
}
