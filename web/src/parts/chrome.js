// The frame around each page: name, namespace, search, settings, navigation, and the state of the connection.
import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { canCluster, canSomewhere, signOut, useSession } from '../session.js';
import { go, href } from '../router.js';
import { settings } from '../settings.js';
import { useStore } from '../store.js';
import { line } from '../live.js';
import { city, duration } from '../format.js';
import { t } from '../i18n.js';
import { parseSearch, typoOf } from '../search.js';
import { Typo } from './filters.js';
import { Icon } from './icon.js';
import { showHelp } from './help.js';
import { useBeat } from './ui.js';

const first = [
  ['', 'nav.overview'], ['tasks', 'nav.tasks'], ['schedules', 'nav.schedules'], ['queues', 'nav.queues'],
  ['dead', 'nav.dead'], ['events', 'nav.events'],
];
const second = [
  ['cluster', 'nav.cluster', () => canCluster('read')], ['operations', 'nav.operations', () => canSomewhere('read')],
  ['keys', 'nav.keys', () => canSomewhere('admin')], ['namespaces', 'nav.namespaces', () => canSomewhere('read')],
  ['audit', 'nav.audit', () => canCluster('admin')],
];

export function Chrome({ path, children }) {
  const nav = useRef(null);
  useEffect(() => {
    nav.current.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [path]);
  useEffect(() => {
    const sized = new ResizeObserver(([entry]) => showMore(entry.target));
    sized.observe(nav.current);
    return () => sized.disconnect();
  }, []);
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t('skip')}</a>
    <header class="top">
      <a class="brand" href=${href('')}><${Icon} name="bell" /><span>Belfry</span></a>
      <${NamespaceChoice} />
      <${Search} />
      <${Settings} />
    </header>
    <nav class="pages" ref=${nav} aria-label=${t('nav.label')} onScroll=${(event) => showMore(event.currentTarget)}>
      <ul>${first.map((p) => html`<${Place} at=${path} of=${p} />`)}</ul>
      <ul>${second.filter(([, , allowed]) => allowed()).map((p) => html`<${Place} at=${path} of=${p} />`)}</ul>
    </nav>
    <${Stale} />
    ${children}`;
}

// showMore marks the sides at which the bar of pages goes on.
function showMore({ classList, scrollLeft, scrollWidth, clientWidth }) {
  classList.toggle('less', scrollLeft > 4);
  classList.toggle('more', scrollLeft + clientWidth < scrollWidth - 4);
}

function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function Place({ at, of: [path, name] }) {
  const here = path === '' ? at === '' : at === path || at.startsWith(`${path}/`) || at === `new/${path.slice(0, -1)}`;
  return html`<li><a href=${href(path)} aria-current=${here ? 'page' : undefined}>${t(name)}</a></li>`;
}

function NamespaceChoice() {
  const { namespace, namespaces } = useSession();
  const choose = (event) => go(href('', { ns: event.target.value }));
  const names = namespaces.includes(namespace) ? namespaces : [namespace, ...namespaces];
  return html`<label class="choice"><span>${t('namespace')}</span>
    <select value=${namespace} onChange=${choose}>${names.map((n) => html`<option value=${n}>${n}</option>`)}</select>
  </label>`;
}

function Search() {
  const box = useRef(null);
  const [typo, setTypo] = useState(null);
  const search = (event) => {
    event.preventDefault();
    const found = typoOf(box.current.value);
    setTypo(found);
    if (found) return;
    go(href('tasks', parseSearch(box.current.value)));
    box.current.value = '';
    document.getElementById('main').focus({ preventScroll: true }); // so that keys are no text of the box
  };
  const slash = (event) => {
    if (event.key === '/' && !box.current.value) event.preventDefault();
  };
  return html`<form class="search" role="search" onSubmit=${search}>
    <${Icon} name="search" />
    <input id="search" ref=${box} type="search" aria-label=${t('search.label')} placeholder=${t('search.hint')}
      autocomplete="off" spellcheck=${false} onKeyDown=${slash} />
    <kbd aria-hidden="true">/</kbd>
    <${Typo} typo=${typo} box=${box} clear=${() => setTypo(null)} />
  </form>`;
}

function Settings() {
  const { lang, theme, zone } = useStore(settings);
  const { caller } = useSession();
  const themes = { auto: 'light', light: 'dark', dark: 'auto' };
  const icons = { auto: 'auto', light: 'sun', dark: 'moon' };
  const set = (patch) => () => settings.set(patch);
  return html`<div class="settings">
    <button type="button" class="button quiet" onClick=${set({ zone: zone === 'utc' ? 'local' : 'utc' })}
      aria-label=${t('zone.label', { zone: city() })}>
      <${Icon} name="globe" /><span>${city()}</span></button>
    <button type="button" class="button quiet" onClick=${set({ theme: themes[theme] })}
      aria-label=${t('theme.label', { theme: t(`theme.${theme}`) })} title=${t(`theme.${theme}`)}>
      <${Icon} name=${icons[theme]} /></button>
    <button type="button" class="button quiet" onClick=${set({ lang: lang === 'en' ? 'zh' : 'en' })}
      lang=${lang === 'en' ? 'zh-Hans' : 'en'}>
      ${lang === 'en' ? '中文' : 'English'}</button>
    <button type="button" class="button quiet keys-help" onClick=${showHelp} aria-label=${t('key.title')}
      title=${t('key.title')}><kbd aria-hidden="true">?</kbd></button>
    <${Person} caller=${caller} />
  </div>`;
}

function Person({ caller }) {
  if (caller.kind === 'local') return html`<span class="person" title=${t('person.local.why')}><${Icon} name="person" />
    <span>${t('person.local')}</span></span>`;
  return html`<span class="person" title=${`${caller.kind} ${caller.id}`}><${Icon} name="person" /><span>
    ${caller.name || caller.id}</span></span>
    <button type="button" class="button quiet" onClick=${signOut}>${t('signout')}</button>`;
}

// Stale says since when the page could not be renewed.
function Stale() {
  useBeat();
  const { brokenSince } = useStore(line);
  const age = brokenSince ? Date.now() - brokenSince : 0;
  return html`<div class="stale" role="status">
    ${age > 2000 && html`<p><${Icon} name="alert" />${t('stale', { since: duration(age) })}</p>`}</div>`;
}
