// The list of keys.
import { html } from '../html.js';
import { t } from '../i18n.js';
import { show } from './dialog.js';
import { Button } from './ui.js';

const keys = [
  [['/'], 'key.search'], [['g', 'o'], 'nav.overview'], [['g', 't'], 'nav.tasks'], [['g', 's'], 'nav.schedules'],
  [['g', 'q'], 'nav.queues'], [['g', 'd'], 'nav.dead'], [['g', 'e'], 'nav.events'], [['g', 'c'], 'nav.cluster'],
  [['g', 'p'], 'nav.operations'], [['g', 'k'], 'nav.keys'], [['g', 'n'], 'nav.namespaces'], [['g', 'a'], 'nav.audit'],
  [['j', 'k'], 'key.rows'], [['x'], 'key.select'],
  [['?'], 'key.help'], [['Esc'], 'key.close'],
];

export function showHelp() {
  show(Help);
}

function Help({ close }) {
  return html`<h2 id="dialog-title">${t('key.title')}</h2>
    <dl class="keys">${keys.map(([parts, name]) => html`<div><dt>${parts.map((k) => html`<kbd>${k}</kbd> `)}</dt><dd>
      ${t(name)}</dd></div>`)}</dl>
    <footer><${Button} kind="primary" onClick=${close}>${t('close')}<//></footer>`;
}
