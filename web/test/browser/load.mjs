// Many tasks at once.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { binary } from './cluster.mjs';

const batch = 5000;

// load schedules n tasks through the command line. request returns the fields of the i-th one.
export async function load(cluster, n, request) {
  const command = spawn(binary, ['task', 'batch', '--addr', cluster.url, '--timeout', '1h'],
    { stdio: ['pipe', 'ignore', 'inherit'] });
  const ended = once(command, 'exit');
  for (let i = 0; i < n;) {
    let text = '';
    for (const end = Math.min(i + batch, n); i < end; i++) {
      text += `${JSON.stringify({ op: 'schedule', ...request(i) })}\n`;
    }
    if (!command.stdin.write(text)) await Promise.race([once(command.stdin, 'drain'), ended]);
  }
  command.stdin.end();
  assert.deepEqual(await ended, [0, null]);
}
