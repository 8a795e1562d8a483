// Small parts that all pages are made of.
import { useEffect, useId, useState } from 'preact/hooks';
import { html } from '../html.js';
import { now } from '../clock.js';
import { city, duration, instant, milliseconds, relative } from '../format.js';
import { newStore, useStore } from '../store.js';
import { t, word } from '../i18n.js';
import { Icon } from './icon.js';
import { say } from './toast.js';

const beat = newStore(0);
setInterval(() => document.hidden || beat.set({ at: Date.now() }), 1000);

// useBeat draws a component anew every second.
export const useBeat = () => useStore(beat);

export const millis = (text) => (typeof text === 'number' ? text : Date.parse(text));

// Instant shows an instant as seen from now, and in full on hover and to screen readers.
export function Instant({ at, full = false }) {
  useBeat();
  if (!at) return html`<span class="muted">–</span>`;
  const ms = millis(at);
  const exact = `${instant(ms)} ${city()}`;
  const iso = new Date(ms).toISOString();
  if (full) return html`<time dateTime=${iso} title=${relative(ms)}>${instant(ms)}
    <span class="hidden"> ${city()}, ${relative(ms)}</span></time>`;
  return html`<time dateTime=${iso} title=${exact}>${relative(ms)}<span class="hidden">, ${exact}</span></time>`;
}

// Since shows the time since an instant.
export function Since({ at }) {
  useBeat();
  const ms = millis(at);
  return html`<time dateTime=${at} title=${`${instant(ms)} ${city()}`}>${duration(Math.max(0, now() - ms))}</time>`;
}

const shapes = {
  scheduled: 'ring', waiting: 'ring', ready: 'half', firing: 'play', running: 'play', retrying: 'again',
  delivered: 'check', done: 'check', dead: 'cross', cancelled: 'dash', passed: 'dash', stopped: 'dash', failed: 'cross',
};
// tones are the colours of states.
export const tones = {
  scheduled: 'waiting', waiting: 'waiting', ready: 'waiting', firing: 'running', running: 'running',
    retrying: 'trouble',
  delivered: 'delivered', done: 'delivered', dead: 'trouble', cancelled: 'waiting', passed: 'waiting',
  stopped: 'waiting', failed: 'trouble',
};

// State shows a state as a shape with its word, so that the colour is never alone.
export function State({ state }) {
  return html`<span class="state ${tones[state] || 'waiting'}"><${Icon} name=${shapes[state] || 'ring'} />
    ${word('state', state)}</span>`;
}

const longest = 40; // characters of an id in a row

// Id shows an id within one line, as a link. The name of the link is the whole id.
export function Id({ id, to }) {
  if (id.length <= longest) return html`<a href=${to}>${id}</a>`;
  return html`<a href=${to} title=${id} aria-label=${id}><${Cut} text=${id} /></a>`;
}

// Cut shows a text within one line: cut in the middle where it is too long, and whole on hover and in the clipboard.
export function Cut({ text }) {
  return html`<span class="cut" title=${text}><span>${text.slice(0, -12)}</span><span>${text.slice(-12)}</span></span>`;
}

// Target shows the URL of a target, and how its requests prove who sends them.
export function Target({ of }) {
  const { jwt, client_certificate: certificate } = of.auth ?? {};
  return html`<code>${of.url}</code>${jwt && ` · ${t('target.token', { audience: jwt.audience })}`}
    ${certificate && ` · ${t('target.certificate', { name: certificate })}`}`;
}

export function Tag({ tone = '', children }) {
  const title = typeof children === 'string' ? children : undefined;
  return html`<span class="tag ${tone}" title=${title}>${children}</span>`;
}

export function Button({ children, icon, kind = '', busy = false, ...rest }) {
  return html`<button type="button" ...${rest} class="button ${kind}" aria-busy=${busy ? 'true' : undefined}
    disabled=${busy || rest.disabled}>
    ${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

// Copy is a button that puts a text on the clipboard.
export function Copy({ text, label }) {
  const copy = async () => say(await copyText(text) ? t('copy.done') : t('copy.failed'));
  return html`<${Button} kind="quiet small" icon="copy" onClick=${copy} aria-label=${label || t('copy.label')}>
    ${t('copy.short')}<//>`;
}

// copyText returns whether the text is on the clipboard. Pages without TLS have no clipboard interface but the old one.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    (document.querySelector('dialog[open]') || document.body).append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

// Command shows a command of the program, ready to copy.
export function Command({ text }) {
  return html`<div class="command"><pre tabindex="0"><code>${text}</code></pre>
    <${Copy} text=${text} label=${t('copy.command')} /></div>`;
}

// Empty tells the purpose of a list, and gives the one command that fills it.
export function Empty({ title, children, command, action }) {
  return html`<div class="empty">
    <p class="title">${title}</p>
    ${children && html`<p>${children}</p>`}
    ${command && html`<${Command} text=${command} />`}
    ${action}
  </div>`;
}

// Refused shows a problem: the error, its field, and the missing role.
export function Refused({ problem, retry }) {
  if (!problem) return null;
  const calm = problem.status === 403;
  return html`<div class="refused ${calm ? 'calm' : ''}" role="alert">
    <${Icon} name=${calm ? 'lock' : 'alert'} />
    <div><strong>${titleOf(problem)}</strong>
      ${problem.detail && html`<p>${problem.field && html`<code>${problem.field}</code> `}${problem.detail}</p>`}
      ${problem.limit && html`<p class="muted">${t('problem.limit', { limit: problem.limit })}</p>`}
      ${problem.committed === 'unknown' && html`<p>${t('problem.unknownOutcome')}</p>`}
      ${retry && problem.status !== 403 && html`<${Button} kind="small" onClick=${retry}>${t('retry')}<//>`}
    </div>
  </div>`;
}

function titleOf(problem) {
  if (problem.status === 0) return t('problem.unreachable');
  const known = word('problem', problem.kind);
  return known === problem.kind ? problem.title || `HTTP ${problem.status}` : known;
}

// Card is a part of a page with a heading.
export function Card({ title, side, kind = '', children }) {
  const id = useId();
  return html`<section class="card ${kind}" aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2>
      ${side && html`<div class="side">${side}</div>`}</header>
    ${children}
  </section>`;
}

// Figure shows one number with its name, and its trend and a note below. A note that is still empty takes its place.
export function Figure({ label, value, unit, note, tone = '', to, children }) {
  const name = to ? html`<a href=${to}>${label}</a>` : label;
  return html`<div class="figure ${tone}">
    <dt>${name}</dt><dd><strong>${value}</strong>${unit && html` <span>${unit}</span>`}</dd>
    ${children && html`<dd class="trend">${children}</dd>`}${note !== undefined && html`<dd class="note">${note}</dd>`}
  </div>`;
}

// Facts is a list of names with their values. Absent values are left out.
export function Facts({ of }) {
  const shown = of.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false);
  return html`<dl class="facts">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>`;
}

// Field is a labelled control. The child is a function that gets the attributes which tie the control to its label.
export function Field({ label, hint, error, children }) {
  const id = useId();
  const about = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ');
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${children({ id, 'aria-describedby': about || undefined, 'aria-invalid': error ? 'true' : undefined })}
    ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
    ${error && html`<p class="error" id="${id}-error">${error}</p>`}
  </div>`;
}

// Loading stands for data that has not come yet. It appears after a moment, so that quick answers do not flicker.
export function Loading({ label = t('loading') }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const id = setTimeout(() => setLate(true), 250);
    return () => clearTimeout(id);
  }, []);
  return html`<p class="loading" role="status">${late ? label : ''}</p>`;
}

// awaited shows that the first answer of a poll is awaited. After a failed call, the page says why there is none.
export const awaited = (poll) => !poll.data && !poll.problem && html`<${Loading} />`;

export function Bar({ part, label }) {
  const value = Math.max(0, Math.min(100, part));
  return html`<progress class="bar" max="100" value=${value} aria-label=${label}>${value} %</progress>`;
}
