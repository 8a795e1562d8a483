// Labels as text: name=value, separated by spaces or commas. A name or a value with other characters stands in quotes,
// as in JSON: customer="big one".

const quoted = String.raw`"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"`;
const pair = new RegExp(String.raw`[\s,]*(${quoted}|[^\s,:="]+)[:=](${quoted}|[^\s,"]*)(?=[\s,]|$)`, 'gy');

const plain = (text) => (text.startsWith('"') ? JSON.parse(text) : text);
const safe = (text) => (/^[^\s,:="]+$/.test(text) ? text : JSON.stringify(text));

// readLabels returns the labels in a text as pairs of a name and a value, and the rest that is no label.
export function readLabels(text) {
  const found = [...text.matchAll(pair)];
  const last = found.at(-1);
  const rest = text.slice(last ? last.index + last[0].length : 0);
  const pairs = found.map(([, name, value]) => [plain(name), plain(value)]);
  return { pairs, rest: rest.replace(/^[\s,]+|[\s,]+$/g, '') };
}

// writeLabels is the inverse of readLabels.
export const writeLabels = (pairs) => pairs.map(([name, value]) => `${safe(name)}=${safe(value)}`).join(' ');

// pairOf splits a filter of the API. Its name ends at the first colon or equals sign.
export function pairOf(filter) {
  const [, name, value] = filter.match(/^([^:=]*)[:=]?([^]*)$/);
  return [name, value];
}

// isFilter reports whether the API can filter by labels of a name.
export const isFilter = (name) => !/[:=]/.test(name);
