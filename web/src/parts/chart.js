// A time series. All charts of a page share the cursor.
import uPlot from 'uplot';
import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { compact, number, time } from '../format.js';
import { zoneName } from '../settings.js';
import { colour, faded, onColours } from './colour.js';

const height = 168;

// Chart draws series {label, colour, values} over seconds. A screen reader gets the label, which describes the drawing.
export function Chart({ label, seconds, series, unit = '' }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const names = series.map((s) => s.label).join();
  useEffect(() => {
    const make = () => {
      if (!place.current) return;
      plot.current?.destroy();
      plot.current = new uPlot(options(place.current.clientWidth, series, setAt),
        [seconds, ...series.map((s) => s.values)], place.current);
    };
    make();
    const sized = new ResizeObserver(([entry]) => plot.current?.setSize({ width: entry.contentRect.width, height }));
    sized.observe(place.current);
    const stop = onColours(make);
    return () => {
      sized.disconnect();
      stop();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, zoneName()]);
  useEffect(() => plot.current?.setData([seconds, ...series.map((s) => s.values)]), [seconds, series]);
  const i = at ?? seconds.length - 1;
  return html`<figure class="chart">
    <div ref=${place} role="img" aria-label=${label}></div>
    <figcaption><span class="at">${seconds[i] ? time(seconds[i] * 1000, { millis: false }) : ''}</span>
      ${series.map((s) => html`<span class="key ${s.tone}"><i></i>${s.label} <b>
        ${s.values[i] === undefined || s.values[i] === null ? '–' : compact(s.values[i])}</b>${unit}</span>`)}
    </figcaption>
  </figure>`;
}

function options(width, series, setAt) {
  const axis = { stroke: colour('muted'), grid: { stroke: faded(colour('muted'), 0.14), width: 1 },
    ticks: { show: false }, font: '12px ui-sans-serif, system-ui, sans-serif' };
  return {
    width,
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), zoneName()),
    cursor: { sync: { key: 'belfry' }, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { show: false },
    scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [
      { ...axis, size: 24, values: (_, splits) => splits.map((s) => time(s * 1000, { millis: false }).slice(0, 5)) },
      { ...axis, size: 44, values: (_, splits) => splits.map((v) => (v < 10 ? number(v, 2) : compact(v))) },
    ],
    series: [{}, ...series.map((s) => ({ label: s.label, stroke: colour(s.tone), width: 1.5, fill: s.fill
      ? faded(colour(s.tone), 0.1) : undefined, points: { show: false } }))],
    hooks: { setCursor: [(u) => setAt(u.cursor.idx ?? null)] },
  };
}
