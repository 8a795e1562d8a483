// JSON whose large integers keep their digits. Payloads are delivered byte for byte, so the page must not round them.

const mark = 'payload-as-it-was-typed-7c1f';

// parse reads JSON. Integers that a number cannot hold become raw JSON, where the browser has that.
export function parse(text) {
  if (typeof JSON.rawJSON !== 'function' || !/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const exact = typeof value !== 'number' || !Number.isInteger(value) || Number.isSafeInteger(value);
    return exact ? value : JSON.rawJSON(context.source);
  });
}

// Typed is a payload as it was typed. The text must be JSON.
export class Typed {
  constructor(text) {
    JSON.parse(text);
    this.text = text.trim();
  }

  toJSON() {
    return mark;
  }
}

// write writes JSON. A Typed payload, of which there is one at most, is written as it was typed.
export function write(value) {
  const typed = find(value);
  const text = JSON.stringify(value);
  return typed ? text.replace(`"${mark}"`, () => typed.text) : text;
}

function find(value) {
  if (value instanceof Typed) return value;
  if (!value || typeof value !== 'object') return null;
  return Object.values(value).map(find).find(Boolean) || null;
}
