// Keeps delayed work in a sorted set, as programs do with ioredis. Arguments: host, port, password.
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';

const [host, port, password] = process.argv.slice(2);
const client = new Redis({ host, port: Number(port), password, connectionName: 'worker' });
const now = Date.now() / 1000;
const later = Math.floor(now) + 3600;
assert.equal(await client.ping(), 'PONG');
assert.equal(await client.zadd('jobs', now - 2, 'a', now - 1, 'b', later, '{"order": 1}'), 3);
assert.equal(await client.zadd('jobs', 'XX', 'CH', now - 3, 'a'), 1);
assert.equal(await client.zadd('jobs', 'NX', later, 'b'), 0);
assert.equal(await client.zscore('jobs', '{"order": 1}'), String(later));
assert.equal(await client.zscore('jobs', 'none'), null);
assert.equal(await client.zcard('jobs'), 3);
const due = await client.zrangebyscore('jobs', '-inf', Date.now() / 1000, 'WITHSCORES', 'LIMIT', 0, 10);
assert.deepEqual([due[0], due[2]], ['a', 'b']);
assert.equal(await client.zrem('jobs', 'a', 'none'), 1);
assert.equal(await client.zrem('jobs', 'a'), 0);
let popped = [];
for (const deadline = Date.now() + 30_000; popped.length === 0;) {
  assert(Date.now() < deadline);
  popped = await client.zpopmin('jobs');
}
assert.equal(popped[0], 'b');
const pipe = client.pipeline();
for (let n = 0; n < 200; n++) pipe.zadd('many', later + n, `m${n}`);
assert.deepEqual(await pipe.exec(), Array(200).fill([null, 1]));
assert.equal((await client.zrangebyscore('many', `(${later}`, '+inf')).length, 199);
await assert.rejects(client.zadd('jobs', 'soon', 'a'), /value is not a valid float/);
await client.quit();
console.log('ok');
