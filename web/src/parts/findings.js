// The findings of doctor, with the commands that help.
import { html } from '../html.js';
import { href } from '../router.js';
import { t } from '../i18n.js';
import { Icon } from './icon.js';
import { Command, Loading, Refused, Tag } from './ui.js';

const tones = { critical: 'trouble', warning: 'warning', note: '' };

export function Findings({ doctor }) {
  if (!doctor.data) return doctor.problem ? html`<${Refused} problem=${doctor.problem} retry=${doctor.refresh} />`
    : html`<${Loading} />`;
  const { findings } = doctor.data;
  if (!findings.length) return html`<p class="well"><${Icon} name="check" />${t('doctor.well')}</p>`;
  return html`<ul class="findings">${findings.map((f) => html`<li key=${f.code + f.summary}>
    <p><${Tag} tone=${tones[f.severity]}>${t(`severity.${f.severity}`)}<//> <span lang="en">${f.summary}</span></p>
    ${f.do.map((command) => html`<${Command} text=${command} />`)}
  </li>`)}</ul>`;
}

// HealthLine is the state of the cluster in one line: a word, the first finding, and the command that helps.
export function HealthLine({ doctor }) {
  if (!doctor.data && doctor.problem) return html`<${Refused} problem=${doctor.problem} retry=${doctor.refresh} />`;
  const [first, ...more] = doctor.data?.findings || [];
  return html`<section class="card health-line" aria-label=${t('doctor.title')}>
    <${Health} doctor=${doctor} />
    ${first && html`<span class="summary" lang="en" title=${first.summary}>${first.summary}</span>
      ${first.do[0] && html`<${Command} text=${first.do[0]} />`}
      ${more.length > 0 && html`<a href=${href('cluster')}>${t('doctor.more', { n: more.length })}</a>`}`}
  </section>`;
}

// Health is the state of the cluster in a word.
export function Health({ doctor }) {
  if (!doctor.data) return html`<span class="muted">–</span>`;
  const worst = ['critical', 'warning'].find((s) => doctor.data.findings.some((f) => f.severity === s));
  const tone = worst === 'critical' ? 'trouble' : worst ? 'warning' : 'delivered';
  return html`<span class="state ${tone}"><${Icon} name=${worst ? 'alert' : 'check'} />${t(`health.${worst || 'well'}`)}
    </span>`;
}
