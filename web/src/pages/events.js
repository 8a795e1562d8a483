// The events of tasks, live. When the stream breaks, the page goes on behind the last event that it has.
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { inNamespace, lines, Problem } from '../api.js';
import { go, href } from '../router.js';
import { duration, milliseconds, time } from '../format.js';
import { t, word } from '../i18n.js';
import { Filters } from '../parts/filters.js';
import { filtersOf } from '../search.js';
import { Table } from '../parts/table.js';
import { Button, Empty, Id, Refused, Tag, useBeat } from '../parts/ui.js';

const kinds = ['scheduled', 'moved', 'fired', 'delivered', 'failed', 'dead', 'cancelled', 'expired', 'skipped'];
const tones = { delivered: 'delivered', failed: 'trouble', dead: 'trouble', expired: 'trouble', fired: 'running' };
const most = 400; // events on the page
const silence = 40_000; // without a line, the stream counts as broken

export function Events({ query }) {
  const filters = filtersOf(query);
  const types = query.getAll('type');
  const [held, setHeld] = useState(false);
  const stream = useEvents({ ...filters, type: types.length ? types.join(',') : undefined }, held);
  const toggle = (type) => {
    const next = types.includes(type) ? types.filter((x) => x !== type) : [...types, type];
    go(href('events', { ...filters, type: next }), { replace: true });
  };
  return html`
    <header class="page"><h1>${t('nav.events')}</h1><div class="side"><${Line} stream=${stream} held=${held} />
      <${Button} icon=${held ? 'play' : 'pause'} onClick=${() => setHeld(!held)}
        aria-pressed=${held ? 'true' : 'false'}>${t(held ? 'events.go' : 'events.hold')}<//></div></header>
    <${Filters} page="events" filters=${filters} names=${['prefix', 'queue', 'label']} />
    <div class="many" role="group" aria-label=${t('events.types')}>
      ${kinds.map((type) => html`<${Button} kind="small ${types.includes(type) ? 'on' : ''}"
        aria-pressed=${types.includes(type) ? 'true' : 'false'} onClick=${() => toggle(type)}>${word('event', type)}
          <//>`)}</div>
    <${Refused} problem=${stream.problem?.status ? stream.problem : null} retry=${stream.again} />
    ${stream.gap && html`<p class="warn">${t('events.gap')}</p>`}
    ${stream.state === 'connecting' ? '' : stream.events.length ? html`<${Rows} key=${query} events=${stream.events} />`
    : html`<${Empty} title=${t('events.empty')}
      command="belfry task schedule hello --in 2s --url http://127.0.0.1:9000/">${t('events.emptyText')}<//>`}`;
}

function Rows({ events }) {
  return html`<${Table} caption=${t('nav.events')} rows=${events} rowKey=${(e) => e.id} columns=${[
    { label: t('time'), kind: 'mono', cell: (e) => html`<time dateTime=${e.at}>${time(Date.parse(e.at))}</time>` },
    { label: t('event'), cell: (e) => html`<${EventTag} type=${e.type} />` },
    { label: t('id'), kind: 'id',
      cell: (e) => html`<${Id} id=${e.task} to=${href(`tasks/${encodeURIComponent(e.task)}`)} />` },
    { label: t('queue'), cell: (e) => e.queue },
    { label: t('attempt'), kind: 'n', cell: (e) => e.attempt || '' },
    { label: t('schedule.lateness'), kind: 'n', cell: (e) => (e.lateness ? duration(milliseconds(e.lateness)) : '') },
    { label: t('answer'), kind: 'long', cell: (e) => (e.answer ? html`<code>${e.answer}</code>` : '') },
  ]} />`;
}

export function EventTag({ type }) {
  return html`<${Tag} tone=${tones[type] || ''}>${word('event', type)}<//>`;
}

function Line({ stream, held }) {
  useBeat();
  if (held) return html`<span class="state waiting">${t('events.held', { n: stream.waiting })}</span>`;
  if (stream.state === 'connecting') return html`<span class="state waiting" role="status">
    ${t('events.connecting')}</span>`;
  if (stream.state === 'live') return html`<span class="state delivered" role="status">${t('events.live')}</span>`;
  return html`<span class="state trouble" role="status">${t('stale', { since: duration(Date.now() - stream.brokenAt) })}
    </span>`;
}

function add(state, action) {
  if (action.clear) return { events: [], waiting: 0, gap: false };
  if (action.gap) return { ...state, gap: true };
  if (action.held) return { ...state, waiting: state.waiting + action.list.length };
  return { ...state, waiting: 0, events: [...action.list.reverse(), ...state.events].slice(0, most) };
}

// useEvents follows the stream of events. The events of a moment are drawn together.
function useEvents(query, held) {
  const [state, dispatch] = useReducer(add, { events: [], waiting: 0, gap: false });
  const [line, setLine] = useState({ state: 'connecting', brokenAt: 0, problem: null });
  const [round, setRound] = useState(0);
  const hold = useRef(held);
  const kept = useRef([]);
  hold.current = held;
  useEffect(() => {
    if (!held && kept.current.length) dispatch({ list: kept.current.splice(0) });
  }, [held]);
  useEffect(() => {
    dispatch({ clear: true });
    setLine({ state: 'connecting', brokenAt: 0, problem: null });
    kept.current = [];
    const stop = new AbortController();
    let batch = [];
    const take = (event) => batch.push(event);
    const draw = setInterval(() => {
      if (!batch.length) return;
      const list = batch;
      batch = [];
      if (hold.current) kept.current = [...kept.current, ...list].slice(-most);
      dispatch({ list, held: hold.current });
    }, 50);
    followEvents(query, stop.signal, take, () => dispatch({ gap: true }), setLine);
    return () => {
      clearInterval(draw);
      stop.abort();
    };
  }, [JSON.stringify(query), round]);
  return { ...state, ...line, again: () => setRound((n) => n + 1) };
}

// followEvents reads the stream until it is stopped, and connects again after a break.
async function followEvents(query, stop, take, gap, setLine) {
  let after;
  for (let tries = 0; !stop.aborted; tries++) {
    const watch = watchdog(stop);
    try {
      const request = after ? { ...query, after } : { ...query, since: '10s' };
      for await (const line of lines(inNamespace('/events'), request, watch.signal)) {
        watch.pet();
        if (line.problem) throw new Problem(line.problem.status, line.problem);
        if (line.begun) setLine({ state: 'live', brokenAt: 0, problem: null });
        else tries = 0;
        if (line.type === 'gap') gap();
        else if (line.type) {
          after = line.id;
          take(line);
        }
      }
    } catch (err) {
      if (stop.aborted) return;
      const problem = err instanceof Problem ? err : new Problem(0);
      setLine((old) => ({ state: 'broken', brokenAt: old.brokenAt || Date.now(), problem }));
      if ([400, 401, 403, 404].includes(problem.status)) return;
      if (problem.status === 410) after = undefined;
    } finally {
      watch.end();
    }
    if (!stop.aborted) setLine((old) => ({ ...old, state: 'broken', brokenAt: old.brokenAt || Date.now() }));
    await new Promise((done) => setTimeout(done, Math.min(500 * 2 ** tries, 5000)));
  }
}

// watchdog ends a stream on which nothing comes for too long.
function watchdog(stop) {
  const abort = new AbortController();
  let id;
  const pet = () => {
    clearTimeout(id);
    id = setTimeout(() => abort.abort(), silence);
  };
  const end = () => {
    clearTimeout(id);
    stop.removeEventListener('abort', pass);
    abort.abort();
  };
  const pass = () => abort.abort();
  stop.addEventListener('abort', pass);
  pet();
  return { signal: abort.signal, pet, end };
}
