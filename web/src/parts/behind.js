// The table behind a drawing. It is drawn once it is opened.
import { useState } from 'preact/hooks';
import { html } from '../html.js';
import { t } from '../i18n.js';

export function Behind({ label, children }) {
  const [open, setOpen] = useState(false);
  return html`<details class="behind" onToggle=${(e) => setOpen(e.currentTarget.open)}>
    <summary>${t('table.show')}</summary>
    ${open && html`<div class="table-frame" tabindex="0" role="group" aria-label=${label}><table class="plain">
      <caption class="hidden">${label}</caption>${children}</table></div>`}</details>`;
}
