// A task's payload, pretty or as it was sent.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { bytes } from '../format.js';
import { t } from '../i18n.js';
import { Button, Copy } from './ui.js';

export function Payload({ task }) {
  const [raw, setRaw] = useState(false);
  if (task.payload === undefined && task.payload_base64 === undefined) return html`<p class="muted">${t('payload.none')}
    </p>`;
  const text = task.payload_base64 ?? JSON.stringify(task.payload, null, raw ? 0 : 2);
  return html`<div class="payload">
    <div class="row"><span class="muted">${task.content_type} · ${bytes(sizeOf(task))}</span>
      ${task.payload_base64 === undefined
        && html`<${Button} kind="small quiet" aria-pressed=${raw ? 'true' : 'false'} onClick=${() => setRaw(!raw)}>
          ${t('payload.raw')}<//>`}
      <${Copy} text=${text} label=${t('payload.copy')} /></div>
    <pre tabindex="0"><code>${text}</code></pre>
  </div>`;
}

function sizeOf(task) {
  if (task.payload_base64 !== undefined) return Math.floor((task.payload_base64.length * 3) / 4);
  return new TextEncoder().encode(JSON.stringify(task.payload)).length;
}
