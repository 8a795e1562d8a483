// Coming draws the waiting tasks of a sum of queues by the span until they come due.
import { html } from '../html.js';
import { t } from '../i18n.js';
import { Bars } from './bars.js';

export function Coming({ sum }) {
  const items = [['1m', sum.due_1m], ['1h', sum.due_1h - sum.due_1m], ['1d', sum.due_1d - sum.due_1h],
    ['more', sum.waiting - sum.due_1d]];
  return html`<${Bars}
    items=${items.map(([name, value]) => ({ value: Math.max(0, value), label: t(`span.${name}`),
      title: t(`span.${name}.long`) }))} label=${t('due.spans')} log />`;
}
