// The page's texts. Each language is one flat table, and both have the same keys.
import { settings } from './settings.js';
import en from './en.js';
import zh from './zh.js';

const tables = { en, zh };

// t returns the text of a key. `{name}` stands for a parameter. English texts that count have two forms, separated by
// a bar; the parameter n chooses.
export function t(key, params = {}) {
  let text = tables[settings.value.lang][key] ?? en[key] ?? key;
  if (text.includes('|')) text = text.split('|')[Number(params.n) === 1 ? 0 : 1];
  return text.replace(/\{(\w+)\}/g, (whole, name) => params[`${name}_text`] ?? params[name] ?? whole);
}

// word returns the text of a word of the API, such as a state, or the word itself if the page does not know it.
export function word(group, value) {
  const key = `${group}.${value}`;
  return key in en ? t(key) : value;
}
