// The viewer's settings: language, theme and time zone. They are kept in this browser.
import { newStore } from './store.js';

const place = 'belfry-settings';

function load() {
  try {
    return JSON.parse(localStorage.getItem(place)) || {};
  } catch {
    return {};
  }
}

function preferredLanguage() {
  return (navigator.language || 'en').toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

const known = load();

export const settings = newStore({
  lang: known.lang === 'zh' || known.lang === 'en' ? known.lang : preferredLanguage(),
  theme: ['light', 'dark'].includes(known.theme) ? known.theme : 'auto',
  zone: known.zone === 'utc' ? 'utc' : 'local',
});

function apply({ lang, theme }) {
  const html = document.documentElement;
  html.lang = lang === 'zh' ? 'zh-Hans' : 'en';
  if (theme === 'auto') delete html.dataset.theme;
  else html.dataset.theme = theme;
}

settings.subscribe((value) => {
  apply(value);
  try {
    localStorage.setItem(place, JSON.stringify(value));
  } catch {
    // A browser may forbid storage. The settings then last as long as the page.
  }
});
apply(settings.value);

export const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

// zoneName returns the IANA name of the zone in which the page shows instants.
export function zoneName() {
  return settings.value.zone === 'utc' ? 'UTC' : localZone;
}
