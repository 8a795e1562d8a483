// The timing wheel: rings are levels, slots are spans of time from the hand on, which is the present, and brightness is
// occupancy.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { city, compact, duration, instant, number, relative, span, time } from '../format.js';
import { go, href } from '../router.js';
import { ahead, rings, slots, summary } from '../wheelmath.js';
import { t } from '../i18n.js';
import { fit, onColours } from './colour.js';
import { Behind } from './behind.js';
import { hit, layout, paint } from './wheeldraw.js';

const narrow = matchMedia('(width < 760px)');
const first = 1; // the finest level that is drawn: a ring of 64 milliseconds is too swift for the eye

// Wheel shows an answer of GET /v1/wheel.
export function Wheel({ wheel }) {
  const canvas = useRef(null);
  const list = useMemo(() => rings(wheel), [wheel]);
  const nowMs = Date.parse(wheel.now);
  const rows = useMemo(() => list.slice(first).map((ring) => ahead(ring, nowMs)), [list]);
  const labels = list.slice(first).map((ring) => span(ring.slotMs * slots));
  const [chosen, setChosen] = useState(null);
  useDrawing(canvas, rows, labels, chosen);
  const under = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return hit(layout(box.width, rows.length, narrow.matches), event.clientX - box.left, event.clientY - box.top);
  };
  const point = (event) => setChosen(under(event));
  const open = (place) => place && go(tasksOf(rows[place.ring][place.slot]));
  return html`<figure class="wheel">
    <div class="dial">
      <canvas ref=${canvas} role="img" tabindex="0" aria-label=${t('wheel.label', { tasks: number(wheel.waiting) })}
        aria-describedby="wheel-spot" class=${chosen ? 'open' : ''}
        onPointerMove=${point} onPointerDown=${point} onPointerLeave=${() => setChosen(null)}
        onClick=${(event) => open(under(event))}
        onKeyDown=${(event) => keys(event, rows.length, chosen, setChosen, open)}
        onBlur=${() => setChosen(null)}></canvas>
      <div class="hub" aria-hidden="true"><strong>${compact(wheel.waiting)}</strong></div>
    </div>
    <figcaption id="wheel-spot" aria-live="polite">
      ${chosen ? html`<${Spot} slot=${rows[chosen.ring][chosen.slot]} />` : html`<${Caption} wheel=${wheel} />`}
    </figcaption>
    <${Behind} label=${t('wheel.table')}><${Rows} list=${list} wheel=${wheel} /><//>
  </figure>`;
}

// tasksOf returns the address of the tasks that are due within a slot.
function tasksOf({ from, to }) {
  const iso = (ms) => new Date(ms).toISOString();
  return href('tasks', { due_after: iso(from), due_before: iso(to) });
}

// useDrawing paints the wheel when its slots, the choice, the size or the colours change. The answer that comes each
// second moves the slots past the hand.
function useDrawing(canvas, rows, labels, chosen) {
  const state = useRef({});
  Object.assign(state.current, { rows, labels, chosen });
  useEffect(() => {
    const repaint = () => canvas.current && draw(canvas.current, state.current);
    state.current.repaint = repaint;
    const sized = new ResizeObserver(repaint);
    sized.observe(canvas.current);
    const stop = onColours(repaint);
    return () => {
      sized.disconnect();
      stop();
    };
  }, []);
  useEffect(() => state.current.repaint(), [rows, chosen]);
}

function draw(canvas, { rows, labels, chosen }) {
  const { context, width } = fit(canvas);
  if (width >= 8) paint(context, layout(width, rows.length, narrow.matches), rows, labels, chosen);
}

// keys moves the choice: left and right through the slots, up and down through the rings. Enter opens the slot.
function keys(event, count, chosen, setChosen, open) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] };
  const move = moves[event.key];
  if (event.key === 'Escape') setChosen(null);
  if (event.key === 'Enter') open(chosen);
  if (!move) return;
  event.preventDefault();
  const at = chosen || { ring: 0, slot: -1 };
  setChosen({ ring: Math.min(count - 1, Math.max(0, at.ring + move[0])), slot: (at.slot + move[1] + slots) % slots });
}

function Spot({ slot: { tasks, from, to } }) {
  const exact = to - from < 1000 ? `${time(from)} – ${time(to)}` : `${instant(from)} – ${instant(to)}`;
  return html`<b>${t('wheel.tasks', { n: tasks, n_text: number(tasks) })}
    </b> · ${relative(from)} · ${t('wheel.slot', { length: duration(to - from) })}<br />${exact} ${city()}`;
}

function Caption({ wheel }) {
  const missing = wheel.missing_shards.length;
  return html`${t('wheel.caption')}
    ${missing ? html` <b class="trouble">${t('wheel.missing', { n: missing, shards: wheel.missing_shards.join(', ') })}
      </b>` : ''}`;
}

function Rows({ list, wheel }) {
  return html`<thead><tr>${['ring', 'slotLength', 'tasks', 'slots', 'first',
    'fullest'].map((c) => html`<th scope="col">${t(`wheel.col.${c}`)}</th>`)}</tr></thead>
    <tbody>${summary(list).map((r) => html`<tr><th scope="row">${span(r.slotMs * slots)}</th><td>
      ${duration(r.slotMs)}</td><td>${number(r.tasks)}</td><td>${r.used}/64</td>
      <td>${r.first ? relative(r.first.from) : '–'}</td><td>
        ${r.fullest ? html`<a href=${tasksOf(r.fullest)}>${number(r.fullest.tasks)}, ${instant(r.fullest.from)}</a>`
    : '–'}</td></tr>`)}
      <tr><th scope="row">${t('wheel.beside')}</th><td></td><td>${number(wheel.beside)}</td><td></td><td></td><td>
        </td></tr></tbody>`;
}
