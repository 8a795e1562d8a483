// Bars: counts side by side over an axis, with the largest named.
import { html } from '../html.js';
import { compact, number } from '../format.js';
import { t } from '../i18n.js';

const height = 96;
const floor = 0.35; // the height of one task on a logarithmic scale, in powers of ten

// axisOf returns the scale of counts from 0 to 1, and the values that the axis names. A logarithmic one ends at a power
// of ten.
export function axisOf(most, log) {
  if (!log) {
    const step = 10 ** Math.floor(Math.log10(most));
    const top = Math.ceil(most / step) * step;
    return { scale: (v) => v / top, ticks: [0, top] };
  }
  const powers = Math.max(1, Math.ceil(Math.log10(most)));
  const every = Math.ceil(powers / 4);
  const ticks = Array.from({ length: powers + 1 }, (_, i) => i).filter((i) => (powers - i) % every === 0);
  return { scale: (v) => (v ? (Math.log10(v) + floor) / (powers + floor) : 0), ticks: ticks.map((i) => 10 ** i) };
}

// Bars draws items {label, value, title}. With log, heights are on a logarithmic scale, so that a hundred and a million
// are both to be seen. Every other label is left out where there are many.
export function Bars({ items, label, log = false, every = 1, mark }) {
  const { scale, ticks } = axisOf(Math.max(...items.map((i) => i.value), 1), log);
  const slot = 100 / items.length;
  return html`<figure class="bars">
    <div class="plot" role="img"
      aria-label=${`${label}: ${items.filter((i) => i.value).map((i) => `${i.title
        || i.label} ${number(i.value)}`).join('; ') || '0'}`}>
      <div class="axis" aria-hidden="true">${ticks.map((v) => html`<span key=${v}
        style=${{ bottom: `${scale(v) * 100}%` }}>${compact(v)}</span>`)}</div>
      <svg viewBox="0 0 100 ${height}" preserveAspectRatio="none" aria-hidden="true">
        ${ticks.map((v) => html`<line class="tick" x1="0" x2="100" y1=${y(scale(v))} y2=${y(scale(v))} />`)}
        ${items.map((item, i) => {
    const size = item.value ? Math.max(1.5, scale(item.value) * height) : 0;
    return html`<g key=${i}><title>${item.title || item.label}: ${number(item.value)}</title>
            <rect class="hit" x=${i * slot} y="0" width=${slot} height=${height} />
            <rect class="column" x=${i * slot + slot * 0.14} y=${height - size} width=${slot * 0.72} height=${size} />
          </g>`;
  })}
      </svg>
    </div>
    <div class="ticks" aria-hidden="true">
      ${items.map((item, i) => html`<span key=${i} class=${i % every ? 'gone' : ''}>
        ${log && item.value ? html`<b>${compact(item.value)}</b>` : ''}${i % every ? '' : item.label}</span>`)}</div>
    ${(mark || log) && html`<figcaption>${[mark, log && t('scale.log')].filter(Boolean).join(' ')}</figcaption>`}
  </figure>`;
}

const y = (part) => height - part * height;
