// Short messages about finished actions. Screen readers announce them.
import { html } from '../html.js';
import { newStore, useStore } from '../store.js';

const toasts = newStore({ list: [] });
let last = 0;

// say shows a message for some seconds. The tone is empty or `trouble`.
export function say(text, tone = '') {
  const id = ++last;
  toasts.set({ list: [...toasts.value.list.slice(-3), { id, text, tone }] });
  setTimeout(() => toasts.set({ list: toasts.value.list.filter((m) => m.id !== id) }), tone ? 9000 : 5000);
}

export function Toasts() {
  const { list } = useStore(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${list.map((m) => html`<p key=${m.id} class=${m.tone}>${m.text}</p>`)}
  </div>`;
}
