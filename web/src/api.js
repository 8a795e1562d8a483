// Calls of the public API. Answers are JSON, and refusals are problems (RFC 9457).

import { parse, write } from './json.js';

const timeoutMs = 15_000;

// caller has the state of the session for a call: the key, the namespace, and the functions that the outcome calls.
const caller = { key: '', namespace: '', refused: () => {}, reached: () => {} };

export function setCaller(patch) {
  Object.assign(caller, patch);
}

// Problem is a refusal, or the failure to reach the node (status 0).
export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || body.title || '');
    this.name = 'Problem';
    this.status = status;
    this.kind = (body.type || '').split(':').pop() || (status === 0 ? 'unreachable' : 'unknown');
    this.title = body.title || '';
    this.detail = body.detail || '';
    this.field = body.field || '';
    this.limit = body.limit || '';
    this.committed = body.committed || '';
    this.body = body;
  }
}

// inNamespace returns the path of a call in the namespace that the session shows.
export function inNamespace(path) {
  return caller.namespace ? `/v1/namespaces/${caller.namespace}${path}` : `/v1${path}`;
}

// searchOf returns parameters of an address. A list repeats its parameter; empty values are left out.
export function searchOf(query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const v of [value].flat()) {
      if (v !== undefined && v !== null && v !== '') search.append(name, v);
    }
  }
  return search;
}

// withQuery appends parameters as searchOf reads them.
export function withQuery(path, query = {}) {
  const text = searchOf(query).toString();
  return text ? `${path}?${text}` : path;
}

function headersOf({ key, body, type, accept, headers }) {
  const h = new Headers(headers);
  const credential = key ?? caller.key;
  if (credential) h.set('Authorization', `Bearer ${credential}`);
  if (body !== undefined) h.set('Content-Type', type || 'application/json');
  h.set('Accept', accept || 'application/json');
  return h;
}

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy in between may answer without JSON.
  }
  return new Problem(response.status, body);
}

async function send(method, path, options) {
  const { body, type, signal, signIn } = options;
  const content = body === undefined || typeof body === 'string' ? body : write(body);
  const init = { method, headers: headersOf(options), body: content, signal, cache: 'no-store', credentials: 'omit' };
  let response;
  try {
    response = await fetch(path, init);
  } catch (err) {
    if (signal?.aborted && signal.reason?.name !== 'TimeoutError') throw err;
    throw new Problem(0);
  }
  caller.reached(response);
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (response.status === 401 && !signIn) caller.refused(problem);
  throw problem;
}

// call makes one call and returns the JSON of its answer, or null for an empty one.
export async function call(method, path, options = {}) {
  const limit = AbortSignal.timeout(options.timeoutMs || timeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  const response = await send(method, path, { ...options, signal });
  if (response.status === 204) return null;
  try {
    return parse(await response.text());
  } catch (err) {
    if (options.signal?.aborted) throw err;
    throw new Problem(0);
  }
}

export function get(path, query, options) {
  return call('GET', withQuery(path, query), options);
}

// change makes a call that changes something. It carries an idempotency key, so that one repeat after a broken
// connection, or after an answer that nothing was committed, is safe. With once it does not repeat the call: a repeated
// call for an API key makes another key, which nobody has seen.
export async function change(method, path, body, options = {}) {
  const key = options.idempotencyKey || newKey();
  const full = { ...options, body, headers: { ...options.headers, 'Idempotency-Key': key } };
  try {
    return await call(method, path, full);
  } catch (err) {
    if (options.once || !(err instanceof Problem) || (err.status !== 0 && err.committed !== 'no')) throw err;
    await pause(700);
    return call(method, path, full);
  }
}

// batch makes many calls in one request, and returns their answers in order. Each has a key of its own.
export async function batch(operations) {
  const body = operations.map((line) => `${JSON.stringify({ key: newKey(), ...line })}\n`).join('');
  const response = await send('POST', inNamespace('/batch'),
    { body, type: 'application/x-ndjson', accept: 'application/x-ndjson', signal: AbortSignal.timeout(60_000) });
  return (await response.text()).split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

// newKey makes an idempotency key. The page may be served without TLS, where randomUUID does not exist.
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `ui-${Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')}`;
}

// lines yields the lines of an answer of newline-delimited JSON, as they come. The first one is {begun: true}: the node
// has answered.
export async function* lines(path, query, signal) {
  const response = await send('GET', withQuery(path, query), { signal, accept: 'application/x-ndjson' });
  yield { begun: true };
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (err) {
      if (signal?.aborted) return;
      throw new Problem(0);
    }
    if (part.done) return;
    const complete = (rest + part.value).split('\n');
    rest = complete.pop();
    for (const line of complete) {
      if (line) yield JSON.parse(line);
    }
  }
}
