// Draws the wheel on a canvas: the rings, their slots, and the hands that move slowly.
import { position, shade, slots, most } from '../wheelmath.js';
import { colour, faded, fit } from './colour.js';

const turn = Math.PI * 2;
const top = -Math.PI / 2;
const gap = 3; // between rings, in pixels

// layout returns the radii of the rings for a square of a size.
export function layout(size, count) {
  const outer = size / 2 - 4;
  const inner = outer * 0.2;
  const depth = (outer - inner) / count;
  const radii = Array.from({ length: count },
    (_, i) => ({ from: inner + i * depth + gap / 2, to: inner + (i + 1) * depth - gap / 2 }));
  return { centre: size / 2, inner, outer, radii };
}

// paintRings draws all sectors. Filled ones are brighter the more tasks they hold. Those of one brightness are filled
// together, since each fill and each colour takes its time.
export function paintRings(context, shape, list) {
  const peak = most(list);
  const alike = new Map(); // the sectors, by colour and brightness
  list.forEach((ring, i) => ring.sectors.forEach(({ tasks }, k) => {
    const look = tasks ? `accent ${shade(tasks, peak)}` : `muted ${k % 16 ? 0.08 : 0.16}`;
    if (!alike.has(look)) alike.set(look, []);
    alike.get(look).push([i, k]);
  }));
  for (const [look, sectors] of alike) {
    const [name, alpha] = look.split(' ');
    context.fillStyle = faded(colour(name), alpha);
    context.beginPath();
    for (const [i, k] of sectors) outline(context, shape, i, k);
    context.fill();
  }
}

// outline adds a sector to the path.
function outline(context, shape, i, k) {
  const { from, to } = shape.radii[i];
  const { centre } = shape;
  const trim = Math.min(0.6 / to, 0.01);
  const [a, b] = [top + (k / slots) * turn + trim, top + ((k + 1) / slots) * turn - trim];
  context.moveTo(centre + Math.cos(a) * to, centre + Math.sin(a) * to);
  context.arc(centre, centre, to, a, b);
  context.arc(centre, centre, from, b, a, true);
  context.closePath();
}

// paintHands draws where the present is in each ring. The ring of milliseconds turns too fast for the eye and is a glow.
// With moving, the hand of the ring above it is not drawn, because it moves on top of the canvas.
export function paintHands(context, shape, list, nowMs, moving) {
  const hand = colour('text');
  glow(context, shape, colour('accent'));
  context.lineCap = 'round';
  for (let i = moving ? 2 : 1; i < list.length; i++) {
    const angle = top + position(nowMs, list[i].slotMs) * turn;
    const { from, to } = shape.radii[i];
    const [x, y] = [Math.cos(angle), Math.sin(angle)];
    context.strokeStyle = hand;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(shape.centre + x * (from + 1), shape.centre + y * (from + 1));
    context.lineTo(shape.centre + x * (to - 1), shape.centre + y * (to - 1));
    context.stroke();
  }
}

// paintSwift draws the hand of the ring above the innermost one, upright and with its trail, on a canvas of its own that
// fits the ring. The canvas is turned as a whole.
export function paintSwift(canvas, count) {
  const whole = canvas.parentElement.clientWidth;
  const { from, to } = layout(whole, count).radii[1];
  canvas.style.width = `${to * 2}px`;
  canvas.style.height = `${to * 2}px`;
  const { context } = fit(canvas, to * 2);
  context.clearRect(0, 0, to * 2, to * 2);
  const [tone, steps, step] = [colour('accent'), 16, turn / 72];
  for (let k = 0; k < steps; k++) {
    context.fillStyle = faded(tone, 0.3 * (1 - k / steps));
    context.beginPath();
    context.arc(to, to, to, top - (k + 1) * step, top - k * step);
    context.arc(to, to, from, top - k * step, top - (k + 1) * step, true);
    context.fill();
  }
  context.fillStyle = colour('text');
  context.fillRect(to - 1.25, 1, 2.5, to - from - 2);
}

function glow(context, shape, tone) {
  const { from, to } = shape.radii[0];
  context.strokeStyle = faded(tone, 0.1);
  context.lineWidth = to - from;
  context.beginPath();
  context.arc(shape.centre, shape.centre, (from + to) / 2, 0, turn);
  context.stroke();
}

// paintChosen outlines the sector under the pointer or the keys.
export function paintChosen(context, shape, { ring, sector }) {
  const { from, to } = shape.radii[ring];
  const [a, b] = [top + (sector / slots) * turn, top + ((sector + 1) / slots) * turn];
  context.strokeStyle = colour('text');
  context.lineWidth = 2;
  context.beginPath();
  context.arc(shape.centre, shape.centre, to, a, b);
  context.arc(shape.centre, shape.centre, from, b, a, true);
  context.closePath();
  context.stroke();
}

// hit returns the ring and the sector at a point, or null.
export function hit(shape, x, y) {
  const [dx, dy] = [x - shape.centre, y - shape.centre];
  const radius = Math.hypot(dx, dy);
  const ring = shape.radii.findIndex((r) => radius >= r.from - gap / 2 && radius <= r.to + gap / 2);
  if (ring < 0) return null;
  const part = (Math.atan2(dy, dx) - top) / turn;
  return { ring, sector: Math.floor((part - Math.floor(part)) * slots) % slots };
}
