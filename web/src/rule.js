// A rule that repeats, in words. Expressions of a common shape become a sentence; others are described field by field.
import { duration, milliseconds } from './format.js';
import { t } from './i18n.js';

const dayNames = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const macros = { '@hourly': '0 * * * *', '@daily': '0 0 * * *', '@midnight': '0 0 * * *', '@weekly': '0 0 * * SUN',
  '@monthly': '0 0 1 * *', '@yearly': '0 0 1 1 *', '@annually': '0 0 1 1 *' };

// describe returns a rule in words.
export function describe(repeat) {
  const parts = repeat.every
    ? [t('rule.every', { length: duration(milliseconds(repeat.every)) })]
    : (repeat.cron || []).map(describeCron);
  const rule = parts.join(t('rule.or'));
  const more = [
    repeat.cron && (repeat.time_zone || 'UTC'),
    repeat.calendar && t('rule.calendar', { name: repeat.calendar }),
    repeat.jitter && milliseconds(repeat.jitter) > 0
      && t('rule.jitter', { length: duration(milliseconds(repeat.jitter)) }),
  ].filter(Boolean);
  return [rule, ...more].join(' · ');
}

// describeCron returns one expression in words.
export function describeCron(expression) {
  const fields = (macros[expression.trim()] || expression).trim().split(/\s+/);
  const [second, minute, hour, dom, month, dow] = fields.length === 6 ? fields : ['0', ...fields];
  if (fields.length < 5 || dow === undefined) return expression;
  const when = timeOf(second, minute, hour);
  const days = daysOf(dom, month, dow);
  const often = hour === '*' || hour.includes('/'); // a rule of every hour says nothing more with every day
  if (!when || days === null) return expression;
  return often && days === t('rule.daily') ? when : `${when} ${days}`;
}

function timeOf(second, minute, hour) {
  const plain = (text) => /^\d+(,\d+)*$/.test(text);
  const step = (text) => text.match(/^(?:\*|0)\/(\d+)$/)?.[1];
  if (second !== '0') {
    if (minute !== '*' || hour !== '*') return '';
    if (second === '*') return t('rule.eachSecond');
    return step(second) ? t('rule.seconds', { n: Number(step(second)) }) : '';
  }
  if (minute === '*' && hour === '*') return t('rule.eachMinute');
  if (step(minute) && hour === '*') return t('rule.minutes', { n: Number(step(minute)) });
  if (plain(minute) && hour === '*') return t('rule.hourly',
    { minutes: minute.split(',').map((m) => `:${m.padStart(2, '0')}`).join(', ') });
  if (plain(minute) && step(hour)) return t('rule.hours',
    { n: Number(step(hour)), minute: `:${minute.padStart(2, '0')}` });
  if (!plain(minute) || !plain(hour) || minute.includes(',')) return '';
  const times = hour.split(',').map((h) => `${h.padStart(2, '0')}:${minute.padStart(2, '0')}`);
  return t('rule.at', { times: times.join(', ') });
}

// daysOf returns the days in words, and null for days without a short form.
function daysOf(dom, month, dow) {
  const any = (text) => text === '*' || text === '?';
  if (!any(month)) return null;
  if (any(dom) && any(dow)) return t('rule.daily');
  if (any(dom)) return weekdays(dow);
  if (any(dow) && /^\d+(,\d+)*$/.test(dom)) return t('rule.dom', { days: dom.replaceAll(',', ', ') });
  if (any(dow) && dom === 'L') return t('rule.lastDay');
  return null;
}

function weekdays(text) {
  const name = (part) => {
    const index = /^\d$/.test(part) ? Number(part) % 7 : dayNames.indexOf(part.toUpperCase());
    return index < 0 ? null : t(`day.${dayNames[index]}`);
  };
  const parts = text.split(',').map((part) => part.split('-').map(name));
  if (parts.some((p) => p.includes(null) || p.length > 2)) return null;
  return t('rule.on', { days: parts.map((p) => p.join('–')).join(', ') });
}
