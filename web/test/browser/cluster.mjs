// A real cluster on this machine, for the tests in a browser.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const binary = process.env.BELFRY || 'belfry'; // the path of the program

// startCluster starts nodes and returns how to call and break them. flags are those of `belfry serve`.
export async function startCluster({ nodes = 3, auth = false, flags = [] } = {}) {
  const home = mkdtempSync(join(tmpdir(), 'belfry-web-'));
  const args = ['local', '--nodes', String(nodes), '--http-port', '0', '--data', home, ...(auth ? ['--auth'] : []),
    '--', ...flags];
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const urls = await readyURLs(child);
  const key = auth ? readFileSync(join(home, 'admin.key'), 'utf8').trim() : '';
  const cluster = { urls, key, home, url: urls[0], again: [] };
  cluster.api = (method, path, body, options = {}) => callAPI(cluster, method, path, body, options);
  cluster.text = (path) => callAPI(cluster, 'GET', path, undefined, { read: (text) => text });
  cluster.kill = (n) => killNode(home, n);
  cluster.revive = (command) => cluster.again.push(spawn(command[0], command.slice(1), { stdio: 'ignore' }));
  cluster.stop = async () => {
    const ended = new Promise((done) => child.once('exit', done));
    child.kill('SIGINT');
    for (const other of cluster.again) other.kill('SIGTERM');
    await ended;
    rmSync(home, { recursive: true, force: true });
  };
  return cluster;
}

function readyURLs(child) {
  return new Promise((done, fail) => {
    let text = '';
    child.stdout.on('data', (part) => {
      text += part;
      const line = text.match(/^ready: (.*)$/m);
      if (line) done(line[1].trim().split(/\s+/));
    });
    child.once('error', fail);
    child.once('exit', (code) => fail(new Error(`the cluster ended with ${code}: ${text}`)));
  });
}

// callAPI makes a call. A body that is a text is sent as it is.
async function callAPI(cluster, method, path, body, { key = cluster.key, node = 0, read = JSON.parse } = {}) {
  const headers = { 'Content-Type': 'application/json' };
  if (key) headers.Authorization = `Bearer ${key}`;
  const content = typeof body === 'string' ? body : body && JSON.stringify(body);
  const response = await fetch(cluster.urls[node] + path, { method, headers, body: content });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text ? read(text) : null;
}

// killNode ends a node at once, and returns the command that starts it again.
function killNode(home, n) {
  const pid = Number(readFileSync(join(home, `node-${n}`, 'belfry.pid'), 'utf8'));
  const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').filter(Boolean);
  process.kill(pid, 'SIGKILL');
  return command;
}

// startReceiver starts a receiver of webhooks. It refuses those whose path begins with /bad.
export async function startReceiver() {
  const server = createServer((request, response) => {
    request.resume();
    response.statusCode = request.url.startsWith('/bad') ? 503 : 204;
    response.end(request.url.startsWith('/bad') ? 'no' : '');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => new Promise((done) => server.close(done)) };
}

// run runs a command of the program.
export function run(...args) {
  return execFileSync(binary, args, { encoding: 'utf8' });
}

// missing reports whether a call is answered with 404.
export function missing(call) {
  return call.then(() => false, (err) => /: 404 /.test(err.message));
}

// eventually repeats a check until it holds, for half a minute at most.
export async function eventually(what, check, limitMs = 30_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await check().catch(() => false);
    if (value) return value;
    if (Date.now() > end) throw new Error(`it never came true: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}
