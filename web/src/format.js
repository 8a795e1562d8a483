// Numbers, sizes, durations and instants as the page shows them.
import { now } from './clock.js';
import { settings, zoneName } from './settings.js';
import { t } from './i18n.js';

const locale = () => (settings.value.lang === 'zh' ? 'zh-Hans-CN' : 'en-GB');
const formats = new Map();

function cached(kind, options) {
  const name = `${locale()} ${kind.name} ${JSON.stringify(options)}`;
  if (!formats.has(name)) formats.set(name, new kind(locale(), options));
  return formats.get(name);
}

// number writes a number in full.
export function number(n, digits = 0) {
  return cached(Intl.NumberFormat, { maximumFractionDigits: digits }).format(n);
}

// compact shortens numbers of five digits and more: 10.2M.
export function compact(n) {
  if (Math.abs(n) < 10_000) return number(n, Math.abs(n) < 10 ? 1 : 0);
  const options = { notation: 'compact', maximumFractionDigits: 1 };
  const name = `en compact ${settings.value.lang}`;
  if (!formats.has(name)) formats.set(name,
    new Intl.NumberFormat(settings.value.lang === 'zh' ? 'zh-Hans-CN' : 'en', options));
  return formats.get(name).format(n);
}

export function percent(n) {
  return `${number(n, n > 0 && n < 10 ? 1 : 0)} %`;
}

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) [n, i] = [n / 1024, i + 1];
  return `${number(n, n < 10 && i > 0 ? 1 : 0)} ${units[i]}`;
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const year = 365.25 * day;

const durationUnits = [
  ['year', year], ['day', day], ['hour', hour], ['minute', minute], ['second', second], ['millisecond', 1],
];

function unitText(n, unit, digits = 0) {
  return cached(Intl.NumberFormat,
    { style: 'unit', unit, unitDisplay: 'short', maximumFractionDigits: digits }).format(n);
}

// duration writes a span of milliseconds with its largest unit, and one more where that helps: 3 hrs 12 mins.
export function duration(ms) {
  const size = Math.abs(ms);
  if (size < second) return unitText(ms, 'millisecond', size < 10 ? 1 : 0);
  if (size < minute) return unitText(ms / second, 'second', size < 10 * second ? 1 : 0);
  const i = durationUnits.findIndex(([, length]) => size >= length);
  const [unit, length] = durationUnits[i];
  const [smaller, part] = durationUnits[i + 1];
  const whole = Math.floor(size / length);
  const rest = Math.floor((size - whole * length) / part);
  const text = unitText(Math.sign(ms) * whole, unit);
  return rest > 0 && whole < 10 ? `${text} ${unitText(rest, smaller)}` : text;
}

// span writes a duration with its largest unit alone, rounded: 4 min.
export function span(ms) {
  const [unit, length] = durationUnits.find(([, l]) => ms >= l) || durationUnits.at(-1);
  return cached(Intl.NumberFormat, { style: 'unit', unit, unitDisplay: 'narrow', maximumFractionDigits: 0 })
    .format(ms / length);
}

const goUnits = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: second, m: minute, h: hour, d: day };

// milliseconds reads a duration of the API, such as 1h30m or 2.5ms.
export function milliseconds(text) {
  let sum = 0;
  for (const [, n, unit] of String(text
    || '').matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h|d)/g)) sum += Number(n) * goUnits[unit];
  return String(text).startsWith('-') ? -sum : sum;
}

const relativeUnits = [['year', year], ['day', day], ['hour', hour], ['minute', minute], ['second', second]];

// relative writes an instant as seen from now: in 4 min, 3 s ago.
export function relative(instantMs, from = now()) {
  const ms = instantMs - from;
  const size = Math.abs(ms);
  if (size < second) return t('time.now');
  const [unit, length] = relativeUnits.find(([, l]) => size >= l);
  const text = cached(Intl.RelativeTimeFormat, { style: 'short' }).format(Math.trunc(ms / length), unit);
  return text.replace('.', '');
}

function partsOf(ms) {
  const options = {
    timeZone: zoneName(), year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit',
    second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23',
  };
  const name = `parts ${zoneName()}`;
  if (!formats.has(name)) formats.set(name, new Intl.DateTimeFormat('en-GB', options));
  return Object.fromEntries(formats.get(name).formatToParts(ms).map((p) => [p.type, p.value]));
}

// date, time and instant write an instant in the viewer's zone, in the order of ISO 8601.
export function date(ms) {
  const p = partsOf(ms);
  return `${p.year}-${p.month}-${p.day}`;
}

export function time(ms, { millis = true } = {}) {
  const p = partsOf(ms);
  return `${p.hour}:${p.minute}:${p.second}${millis ? `.${p.fractionalSecond}` : ''}`;
}

export function instant(ms) {
  return `${date(ms)} ${time(ms)}`;
}

// shortInstant leaves out the date of an instant of today.
export function shortInstant(ms) {
  return date(ms) === date(now()) ? time(ms) : instant(ms);
}

// city names the viewer's zone.
export function city() {
  return zoneName() === 'UTC' ? 'UTC' : zoneName().split('/').pop().replaceAll('_', ' ');
}

// toInput and fromInput convert between an instant and the value of an input of type datetime-local in the viewer's
// zone.
export function toInput(ms) {
  return `${date(ms)}T${time(ms, { millis: false })}`;
}

export function fromInput(text) {
  if (!text) return null;
  if (zoneName() === 'UTC') return Date.parse(`${text}Z`);
  return new Date(text).getTime();
}

// isoOf returns the instant of such an input as the API takes it.
export const isoOf = (text) => new Date(fromInput(text)).toISOString();
