// Publishes messages with delays and consumes them. It is written for RabbitMQ's plugin for delayed messages.
import amqp from 'amqplib';

const count = 30;
const connection = await amqp.connect(`amqp://app:secret@${process.argv[2]}`);
const channel = await connection.createConfirmChannel();
await channel.assertExchange('node', 'x-delayed-message', { durable: true, arguments: { 'x-delayed-type': 'topic' } });
await channel.assertQueue('node');
await channel.bindQueue('node', 'node', 'go.#');

const due = new Map();
for (let n = 0; n < count; n++) {
  const delay = (n % 3) * 400;
  due.set(n, Date.now() + delay);
  const headers = delay ? { n, 'x-delay': delay } : { n };
  channel.publish('node', 'go.now', Buffer.from(`body ${n}`), { headers, persistent: true, correlationId: `${n}` });
}
await channel.waitForConfirms();
const late = setTimeout(() => fail(`${due.size} messages did not come`), 30_000);
await channel.consume('node', async ({ content, fields, properties }) => {
  const { n } = properties.headers;
  if (Date.now() < due.get(n)) fail(`message ${n} came early`);
  if (!due.delete(n)) fail(`message ${n} came twice`);
  if (`${content}` !== `body ${n}` || properties.correlationId !== `${n}` || fields.routingKey !== 'go.now') fail(`message ${n}`);
  if (n % 3 && properties.headers['x-delay'] !== -(n % 3) * 400) fail(`message ${n} has no negative delay`);
  channel.ack({ fields });
  if (due.size > 0) return;
  clearTimeout(late);
  await connection.close();
  console.log('received', count);
});

function fail(text) {
  console.error(text);
  process.exit(1);
}
