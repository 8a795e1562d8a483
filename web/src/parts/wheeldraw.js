// Draws the wheel on a canvas: a ring for each level, or on a narrow screen a strip for each, with its slots and its
// span. The hand is the present in all of them.
import { shade, slots, most } from '../wheelmath.js';
import { colour, faded } from './colour.js';

const turn = Math.PI * 2;
const top = -Math.PI / 2;
const gap = 2; // between rings, in pixels
const row = 18; // the height of a strip
const margin = 44; // the room for the label of a strip

// layout returns the places of the levels: radii of rings, or lines of strips.
export function layout(width, count, flat) {
  if (flat) return { flat, width, height: count * row, count };
  const outer = width / 2 - 2;
  const inner = outer * 0.24;
  const depth = (outer - inner) / count;
  const radii = Array.from({ length: count },
    (_, i) => ({ from: inner + i * depth + gap / 2, to: inner + (i + 1) * depth - gap / 2 }));
  return { flat, width, height: width, count, centre: width / 2, inner, outer, radii };
}

// paint draws the slots of all levels, brighter the more they hold, their labels, and the hand. rows are the slots of
// each level from the present on; chosen is the slot under the pointer or the keys.
export function paint(context, shape, rows, labels, chosen) {
  context.clearRect(0, 0, shape.width, shape.height);
  const peak = most(rows.map((sectors) => ({ sectors })));
  const alike = new Map(); // the slots, by their look: each fill and each colour takes its time
  rows.forEach((row_, i) => row_.forEach(({ tasks }, k) => {
    const look = tasks ? `accent ${shade(tasks, peak)}` : 'muted 0.1';
    if (!alike.has(look)) alike.set(look, []);
    alike.get(look).push([i, k]);
  }));
  for (const [look, places] of alike) {
    const [name, alpha] = look.split(' ');
    context.fillStyle = faded(colour(name), alpha);
    context.beginPath();
    for (const [i, k] of places) outline(context, shape, i, k);
    context.fill();
  }
  if (chosen) {
    context.strokeStyle = colour('text');
    context.lineWidth = 2;
    context.beginPath();
    outline(context, shape, chosen.ring, chosen.slot);
    context.stroke();
  }
  write(context, shape, labels);
  hand(context, shape);
}

// outline adds a slot to the path.
function outline(context, shape, i, k) {
  if (shape.flat) {
    const length = (shape.width - margin) / slots;
    context.rect(margin + k * length + 0.5, i * row + 2, length - 1, row - 4);
    return;
  }
  const { from, to } = shape.radii[i];
  const { centre } = shape;
  const trim = Math.min(0.6 / to, 0.01);
  const [a, b] = [top + (k / slots) * turn + trim, top + ((k + 1) / slots) * turn - trim];
  context.moveTo(centre + Math.cos(a) * to, centre + Math.sin(a) * to);
  context.arc(centre, centre, to, a, b);
  context.arc(centre, centre, from, b, a, true);
  context.closePath();
}

// write labels each level with its span, at the end of the ring or before the strip.
function write(context, shape, labels) {
  context.font = '11px ui-sans-serif, system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  labels.forEach((text, i) => {
    const x = shape.flat ? margin - 8 : shape.centre - 5;
    const y = shape.flat ? (i + 0.5) * row : shape.centre - (shape.radii[i].from + shape.radii[i].to) / 2;
    if (!shape.flat) {
      const { from, to } = shape.radii[i];
      context.fillStyle = colour('surface');
      context.fillRect(x - context.measureText(text).width - 4, shape.centre - to, shape.centre - x
        + context.measureText(text).width + 4, to - from);
    }
    context.fillStyle = colour('muted');
    context.fillText(text, x, y);
  });
}

function hand(context, shape) {
  context.fillStyle = colour('text');
  if (shape.flat) context.fillRect(margin - 2, 0, 2, shape.height);
  else context.fillRect(shape.centre - 1, shape.centre - shape.outer, 2, shape.outer - shape.inner);
}

// hit returns the level and the slot at a point, or null.
export function hit(shape, x, y) {
  if (shape.flat) {
    const slot = Math.floor(((x - margin) / (shape.width - margin)) * slots);
    const ring = Math.floor(y / row);
    return slot >= 0 && slot < slots && ring >= 0 && ring < shape.count ? { ring, slot } : null;
  }
  const [dx, dy] = [x - shape.centre, y - shape.centre];
  const radius = Math.hypot(dx, dy);
  const ring = shape.radii.findIndex((r) => radius >= r.from - gap / 2 && radius <= r.to + gap / 2);
  if (ring < 0) return null;
  const part = (Math.atan2(dy, dx) - top) / turn;
  return { ring, slot: Math.floor((part - Math.floor(part)) * slots) % slots };
}
