// Bars: counts side by side, with the largest named.
import { html } from '../html.js';
import { compact, number } from '../format.js';

const height = 96;

// Bars draws items {label, value, title}. With log, heights are on a logarithmic scale, so that a hundred and a million
// are both to be seen. Every other label is left out where there are many.
export function Bars({ items, label, log = false, every = 1, mark }) {
  const most = Math.max(...items.map((i) => i.value), 1);
  const scale = log ? (v) => (v ? (Math.log10(v) + 0.35) / (Math.log10(most) + 0.35) : 0) : (v) => v / most;
  const slot = 100 / items.length;
  return html`<figure class="bars">
    <div class="plot" role="img"
      aria-label=${`${label}: ${items.filter((i) => i.value).map((i) => `${i.title
        || i.label} ${number(i.value)}`).join('; ') || '0'}`}>
      <svg viewBox="0 0 100 ${height}" preserveAspectRatio="none" aria-hidden="true">
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
    ${mark && html`<figcaption>${mark}</figcaption>`}
  </figure>`;
}
