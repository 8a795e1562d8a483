// The life of a task from left to right: each event is a mark with its word, and the times between them.
import { html } from '../html.js';
import { duration, milliseconds, time, date, city } from '../format.js';
import { word, t } from '../i18n.js';
import { useNodeNames } from '../nodes.js';
import { Icon } from './icon.js';

const marks = {
  scheduled: ['ring', 'waiting'], moved: ['move', 'waiting'], fired: ['play', 'running'],
    delivered: ['check', 'delivered'],
  failed: ['cross', 'trouble'], dead: ['cross', 'trouble'], expired: ['clock', 'trouble'],
    cancelled: ['dash', 'waiting'],
  skipped: ['dash', 'waiting'],
};

// Timeline shows events, oldest first. next is the instant at which the task is due next, if it is.
export function Timeline({ events, next }) {
  const nameOf = useNodeNames();
  let day = '';
  return html`<ol class="timeline">${events.map((e, i) => {
    const at = Date.parse(e.at);
    const today = date(at);
    const newDay = today !== day;
    day = today;
    const [icon, tone] = marks[e.type] || ['ring', 'waiting'];
    const after = events[i + 1] ? Date.parse(events[i + 1].at) : next;
    return html`<li class=${tone} key=${i}>
      ${after > at && html`<span class="between">${duration(after - at)}</span>`}
      <span class="mark"><${Icon} name=${icon} /></span>
      <b>${title(e)}</b>
      <time dateTime=${e.at} title=${`${today} ${time(at)} ${city()}`}>${newDay ? `${today} ` : ''}${time(at)}</time>
      ${details(e, nameOf).map((d) => html`<span class="detail">${d}</span>`)}
    </li>`;
  })}
  ${next && html`<li class="waiting ahead"><span class="mark"><${Icon} name="ring" /></span><b>${t('timeline.next')}</b>
    <time dateTime=${new Date(next).toISOString()}>${date(next)} ${time(next)}</time></li>`}
  </ol>`;
}

function title(e) {
  const name = word('event', e.type);
  return e.attempt ? `${name} · ${t('attempt.n', { attempt: e.attempt })}` : name;
}

function details(e, nameOf) {
  return [
    e.type === 'fired' && e.lateness && t('timeline.late', { late: duration(milliseconds(e.lateness)) }),
    e.type === 'moved' && e.due && t('timeline.to', { at: `${date(Date.parse(e.due))} ${time(Date.parse(e.due))}` }),
    e.type === 'failed' && Date.parse(e.due) > Date.parse(e.at) && t('timeline.again', { at: time(Date.parse(e.due)) }),
    e.answer,
    e.node && t('timeline.node', { node: nameOf(e.node) }),
  ].filter(Boolean);
}
