// The heat map of lateness: time from left to right, lateness from below, brightness the attempts on a log scale.
import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { duration, number, time } from '../format.js';
import { t } from '../i18n.js';
import { classNames } from '../activity.js';
import { Behind } from './behind.js';
import { colour, faded, fit, onColours } from './colour.js';

// Heat draws activity.grid: for each step a list of counts by class. The table behind it has a row a minute.
export function Heat({ grid, bounds, stepMs }) {
  const canvas = useRef(null);
  const [spot, setSpot] = useState(null);
  useEffect(() => {
    const paint = () => canvas.current && draw(canvas.current, grid);
    paint();
    const sized = new ResizeObserver(paint);
    sized.observe(canvas.current);
    const stop = onColours(paint);
    return () => {
      sized.disconnect();
      stop();
    };
  }, [grid]);
  const names = classNames(bounds);
  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * grid.length);
    const y = names.length - 1 - Math.floor(((event.clientY - box.top) / box.height) * names.length);
    setSpot(grid[x] && names[y] ? { step: grid[x], y } : null);
  };
  return html`<figure class="heat">
    <div class="grid">
      <div class="side" aria-hidden="true"><span>${names.at(-1)}</span><span>${names[4]}</span><span>${names[0]}</span>
        </div>
      <canvas ref=${canvas} role="img" aria-label=${t('heat.label')} onPointerMove=${point}
        onPointerLeave=${() => setSpot(null)}></canvas>
    </div>
    <figcaption>${spot
    ? html`${time(spot.step.at, { millis: false })} · ${names[spot.y]} · <b>${number(spot.step.late[spot.y])}</b>`
    : t('heat.caption', { step: duration(stepMs) })}</figcaption>
    <${Behind} label=${t('heat.label')}><${Rows} grid=${grid} names=${names} /><//>
  </figure>`;
}

function draw(canvas, grid) {
  const { context, width, height } = fit(canvas);
  const tone = colour('accent');
  const trouble = colour('trouble');
  const classes = grid[0]?.late.length || 12;
  const most = Math.log1p(Math.max(1, ...grid.flatMap((s) => s.late)));
  const [w, h] = [width / grid.length, height / classes];
  context.clearRect(0, 0, width, height);
  const cell = (x, y) => [x * w + 0.25, height - (y + 1) * h + 0.5, Math.max(w - 0.5, 0.5), h - 1];
  context.fillStyle = faded(colour('muted'), 0.04);
  context.beginPath(); // of the empty cells, which are most
  grid.forEach((step, x) => step.late.forEach((n, y) => n || context.rect(...cell(x, y))));
  context.fill();
  grid.forEach((step, x) => step.late.forEach((n, y) => {
    if (!n) return;
    context.fillStyle = faded(y > 4 ? trouble : tone, 0.15 + 0.85 * (Math.log1p(n) / most));
    context.fillRect(...cell(x, y));
  }));
}

function Rows({ grid, names }) {
  const minutes = [];
  grid.forEach((step, i) => {
    const at = Math.floor(i / 12);
    minutes[at] ||= { at: step.at, late: step.late.map(() => 0) };
    step.late.forEach((n, y) => {
      minutes[at].late[y] += n;
    });
  });
  return html`<thead><tr><th scope="col">${t('time')}</th>${names.map((n) => html`<th scope="col">${n}</th>`)}
    </tr></thead>
    <tbody>${minutes.map((m) => html`<tr><th scope="row">${time(m.at, { millis: false })}</th>
      ${m.late.map((n) => html`<td>${n ? number(n) : '·'}</td>`)}</tr>`)}</tbody>`;
}
