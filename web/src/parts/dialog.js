// Dialogs: the questions before something is changed, and the forms beside a page.
import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { Problem } from '../api.js';
import { newStore, useStore } from '../store.js';
import { t } from '../i18n.js';
import { Button, Refused } from './ui.js';

const open = newStore({ current: null });
let count = 0;

// show opens a dialog with a component. The component gets close.
export function show(component, props = {}) {
  open.set({ current: { id: ++count, component, props } });
}

function hide() {
  open.set({ current: null });
}

export function Dialogs() {
  const { current } = useStore(open);
  useEffect(() => hide, []); // a dialog ends with the session
  return current && html`<${Frame} key=${current.id} ...${current} />`;
}

function Frame({ component: Content, props }) {
  const frame = useRef(null);
  const before = useRef(document.activeElement);
  useEffect(() => {
    frame.current.showModal();
    return () => before.current?.isConnected && before.current.focus();
  }, []);
  const close = () => frame.current?.close();
  const outside = (event) => event.target === frame.current && close();
  return html`<dialog ref=${frame} onClose=${hide} onClick=${outside} aria-labelledby="dialog-title">
    <div class="dialog"><${Content} ...${props} close=${close} /></div>
  </dialog>`;
}

// Form is the inside of a dialog that ends with a change. run makes the change; its problem is shown in place.
export function Form({ title, children, action, danger = false, disabled = false, run, close }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem(null);
    try {
      if (await run() !== false) close();
    } catch (err) {
      if (!(err instanceof Problem)) throw err;
      setProblem(err);
    } finally {
      setBusy(false);
    }
  };
  return html`<form onSubmit=${submit}>
    <h2 id="dialog-title">${title}</h2>
    <div class="body">${children}</div>
    <${Refused} problem=${problem} />
    <footer>
      <${Button} onClick=${close}>${t('close')}<//>
      <${Button} type="submit" kind=${danger ? 'danger' : 'primary'} busy=${busy} disabled=${disabled}>${action}<//>
    </footer>
  </form>`;
}

// ask opens a question. It names the effect, and does it when the answer is yes.
export function ask({ title, text, words, action, danger, run }) {
  show(Question, { title, text, words, action, danger, run });
}

function Question({ title, text, words, action, danger, run, close }) {
  return html`<${Form} title=${title} action=${action} danger=${danger} run=${run} close=${close}>
    <p>${text}</p>
    ${words && html`<${Words} of=${words} />`}
  <//>`;
}

// Words explains the outcomes that the API may answer.
export function Words({ of }) {
  return html`<dl class="words">
    ${of.map((name) => html`<div><dt><code>${name}</code></dt><dd>${t(`outcome.${name}`)}</dd></div>`)}</dl>`;
}
