// A sparkline: the trend of one figure, without axes.
import { html } from '../html.js';

const width = 160;
const height = 32;

// Sparkline draws values from the oldest to the newest. Screen readers read the label in its place.
export function Sparkline({ values, label, tone = 'muted' }) {
  if (!values || values.length < 2) return html`<div class="spark" />`;
  const most = Math.max(...values, 1e-9);
  const x = (i) => (i / (values.length - 1)) * width;
  const y = (v) => height - 2 - (v / most) * (height - 4);
  const line = values.map((v, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join('');
  return html`<svg class="spark ${tone}" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img"
    aria-label=${label}>
    <path class="area" d="${line}L${width} ${height}L0 ${height}Z" /><path class="line" d=${line} />
  </svg>`;
}

