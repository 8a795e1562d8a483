// The timing wheel: rings are levels, sectors are slots, brightness is occupancy, the hands are the cluster's clock.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { now } from '../clock.js';
import { city, compact, duration, instant, number, relative, time } from '../format.js';
import { rings, slots, spanOf, summary } from '../wheelmath.js';
import { t } from '../i18n.js';
import { fit, onColours } from './colour.js';
import { Behind } from './behind.js';
import { hit, layout, paintChosen, paintHands, paintRings, paintSwift } from './wheeldraw.js';

const stillMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

// Wheel shows an answer of GET /v1/wheel.
export function Wheel({ wheel }) {
  const canvas = useRef(null);
  const list = useMemo(() => rings(wheel), [wheel]);
  const [chosen, setChosen] = useState(null);
  useDrawing(canvas, list, chosen);
  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    setChosen(hit(layout(box.width, list.length), event.clientX - box.left, event.clientY - box.top));
  };
  return html`<figure class="wheel">
    <div class="dial">
      <canvas ref=${canvas} role="img" tabindex="0" aria-label=${t('wheel.label', { tasks: number(wheel.waiting) })}
        aria-describedby="wheel-spot"
        onPointerMove=${point} onPointerDown=${point} onPointerLeave=${() => setChosen(null)}
        onKeyDown=${(event) => keys(event, list, chosen, setChosen)} onBlur=${() => setChosen(null)}></canvas>
      ${!stillMotion() && html`<${Hand} rings=${list.length} wheel=${wheel} />`}
      <div class="hub" aria-hidden="true"><strong>${compact(wheel.waiting)}</strong><span>${t('wheel.waiting')}</span>
        </div>
    </div>
    <figcaption id="wheel-spot" aria-live="polite">
      ${chosen ? html`<${Spot} list=${list} chosen=${chosen} />` : html`<${Caption} wheel=${wheel} />`}</figcaption>
    <${Behind} label=${t('wheel.table')}><${Rows} list=${list} wheel=${wheel} /><//>
  </figure>`;
}

// useDrawing paints the wheel when its counts, the choice, the size or the colours change. The answer that comes each
// second moves the slow hands with it.
function useDrawing(canvas, list, chosen) {
  const state = useRef({});
  Object.assign(state.current, { list, chosen });
  useEffect(() => {
    const repaint = () => canvas.current && paint(canvas.current, state.current);
    state.current.repaint = repaint;
    const sized = new ResizeObserver(repaint);
    sized.observe(canvas.current);
    const stop = onColours(repaint);
    return () => {
      sized.disconnect();
      stop();
    };
  }, []);
  useEffect(() => state.current.repaint(), [list, chosen]);
}

function paint(canvas, { list, chosen }) {
  const { context, width } = fit(canvas);
  if (width < 8) return;
  const shape = layout(width, list.length);
  context.clearRect(0, 0, width, width);
  paintRings(context, shape, list);
  paintHands(context, shape, list, now(), !stillMotion());
  if (chosen) paintChosen(context, shape, chosen);
}

const swift = slots * slots; // the milliseconds of a turn of the ring above the innermost

// Hand is the hand that the eye can follow, with its trail: a picture that the browser turns beside the page's own work,
// and not while the page is hidden. It goes from slot to slot, as the wheel does, and so is drawn 16 times a second
// and not 60. It is put right when it is off the cluster's clock.
function Hand({ rings: count, wheel }) {
  const hand = useRef(null);
  const turning = useRef(null);
  useEffect(() => {
    const repaint = () => hand.current && paintSwift(hand.current, count);
    repaint();
    const sized = new ResizeObserver(repaint);
    sized.observe(hand.current.parentElement);
    const stop = onColours(repaint);
    const turn = hand.current.animate({ transform: ['rotate(0turn)', 'rotate(1turn)'] },
      { duration: swift, iterations: Infinity, easing: `steps(${slots})` });
    turning.current = turn;
    return () => {
      sized.disconnect();
      stop();
      turn.cancel();
    };
  }, [count]);
  useEffect(() => {
    const turn = turning.current;
    const off = Math.abs((turn.currentTime % swift) - (now() % swift));
    if (off > 80 && off < swift - 80) turn.currentTime = now() % swift;
  }, [wheel]);
  return html`<canvas class="hand" ref=${hand} aria-hidden="true"></canvas>`;
}

// keys moves the choice: left and right through the sectors, up and down through the rings.
function keys(event, list, chosen, setChosen) {
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] };
  const move = moves[event.key];
  if (event.key === 'Escape') return setChosen(null);
  if (!move) return undefined;
  event.preventDefault();
  const at = chosen || { ring: 1, sector: 0 };
  const ring = Math.min(list.length - 1, Math.max(0, at.ring + move[0]));
  return setChosen({ ring, sector: (at.sector + move[1] + slots) % slots });
}

function Spot({ list, chosen }) {
  const ring = list[chosen.ring];
  const sector = ring.sectors[chosen.sector];
  const span = sector.spans[0] || spanOf(ring, chosen.sector, now());
  const exact = ring.slotMs < 1000 ? `${time(span.from)} – ${time(span.to)}`
    : `${instant(span.from)} – ${instant(span.to)}`;
  return html`<b>${t('wheel.tasks', { n: sector.tasks, n_text: number(sector.tasks) })}
    </b> · ${relative(span.from)} · ${t('wheel.slot', { length: duration(ring.slotMs) })}<br />${exact} ${city()}`;
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
    <tbody>${summary(list).map((r) => html`<tr><th scope="row">${r.level}</th><td>${duration(r.slotMs)}</td><td>
      ${number(r.tasks)}</td><td>${r.used}/64</td>
      <td>${r.first ? relative(r.first.from) : '–'}</td><td>
        ${r.fullest ? `${number(r.fullest.tasks)}, ${instant(r.fullest.from)}` : '–'}</td></tr>`)}
      <tr><th scope="row">${t('wheel.beside')}</th><td></td><td>${number(wheel.beside)}</td><td></td><td></td><td>
        </td></tr></tbody>`;
}
