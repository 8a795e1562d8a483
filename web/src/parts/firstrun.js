// FirstRun shows the calls that fill the overview of an empty namespace.
import { html } from '../html.js';
import { curl } from '../curl.js';
import { t } from '../i18n.js';
import { Card, Command } from './ui.js';

export function FirstRun() {
  const calls = [
    ['task', curl('PUT', '/tasks/hello', { delay: '10s', payload: { hello: 'world' } })],
    ['schedule', curl('PUT', '/schedules/tick', { repeat: { every: '10s' }, overlap: 'allow', task: {} })],
    ['lease', curl('POST', '/queues/default/lease', { max: 1, wait: '15s' })],
  ];
  return html`<${Card} title=${t('start.title')}>
    <ol class="stack">${calls.map(([name, text]) => html`<li key=${name}><p>${t(`start.${name}`)}</p>
      <${Command} text=${text} /></li>`)}</ol>
    <p class="muted note">${t('start.more')}<code>"target": {"url": "https://shop.example/hook"}</code></p>
  <//>`;
}
