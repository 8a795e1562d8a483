// The form of requests and answers: fields in snake_case there and in camelCase here, and numbers of 64 bits.

/** The members whose content is the caller's, with names that stay as they are. */
const opaque = new Set([
  "payload",
  "append",
  "labels",
  "headers",
  "group_weights",
  "groupWeights",
  "outcomes",
  "claims",
  "object",
]);

const camelNames = new Map<string, string>();
const snakeNames = new Map<string, string>();

function camel(name: string): string {
  let known = camelNames.get(name);
  if (known === undefined) {
    known = name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    camelNames.set(name, known);
  }
  return known;
}

export function snake(name: string): string {
  let known = snakeNames.get(name);
  if (known === undefined) {
    known = name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
    snakeNames.set(name, known);
  }
  return known;
}

/** Returns the JSON of a request. */
export function encode(value: unknown): string {
  return JSON.stringify(outward(value));
}

function outward(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(outward);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  const out: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    out[snake(name)] = opaque.has(name) ? member : outward(member);
  }
  return out;
}

/** A text, or an integer of 16 digits and more outside of texts. */
const longInteger = /("(?:[^"\\]|\\.)*")|(?<![\d.eE+-])(-?\d{16,})(?![\d.eE])/g;

/**
 * Reads the JSON of an answer. A fence becomes a bigint, since fences are compared, and a revision a string, since it
 * only goes back to the service. A number would round both beyond 2^53.
 */
export function decode(text: string): unknown {
  const plain: unknown = JSON.parse(text);
  const exact: unknown = /\d{16}/.test(text)
    ? JSON.parse(text.replace(longInteger, (_, quoted: string | undefined, digits: string) => quoted ?? `"${digits}"`))
    : plain;
  return inward(plain, exact);
}

type Members = Record<string, unknown>;

function inward(value: unknown, exact: unknown): unknown {
  if (Array.isArray(value)) return value.map((item, i) => inward(item, (exact as unknown[])[i]));
  if (typeof value !== "object" || value === null) return value;
  const out: Members = {};
  for (const name in value) {
    const member = (value as Members)[name];
    const same = (exact as Members)[name];
    if (name === "fence") out[name] = BigInt(same as string);
    else if (name === "revision") out[name] = String(same);
    else out[camel(name)] = opaque.has(name) ? member : inward(member, same);
  }
  return out;
}

/** Returns the query of a filter, with its question mark, or "". Lists repeat their name. */
export function queryOf(filter: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter) as [string, unknown][]) {
    if (value === undefined) continue;
    const values = name === "label" ? pairs(value) : Array.isArray(value) ? (value as unknown[]) : [value];
    for (const one of values) query.append(snake(name), one instanceof Date ? one.toISOString() : String(one));
  }
  const text = query.toString();
  return text && "?" + text;
}

function pairs(labels: unknown): string[] {
  return Object.entries(labels as Record<string, string>).map(([name, value]) => `${name}:${value}`);
}

/** Yields the complete lines of an answer's body. Throws if the body ends within a line. */
export async function* linesOf(body: ReadableStream<Uint8Array>, arrived: () => void): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      arrived();
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line) yield line;
    }
    if (rest) throw new Error("the answer broke off within a line");
  } finally {
    reader.cancel().catch(() => undefined); // the connection has ended already, or ends by this
  }
}

/** Returns the milliseconds of a duration in Go's form. */
export function milliseconds(text: string): number {
  const units: Record<string, number> = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
  if (!/^(\d+(\.\d+)?(ms|[smhd]))+$/.test(text)) throw new TypeError(`${text} is not a duration such as 30s`);
  let sum = 0;
  for (const [, amount, unit] of text.matchAll(/([\d.]+)(ms|[smhd])/g)) sum += Number(amount) * units[unit as string]!;
  return sum;
}
