// Adds delayed jobs of all kinds with the BullMQ library, and prints each as JSON as the test expects it in Belfry.
import { FlowProducer, Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const connection = new Redis(process.argv[2], { maxRetriesPerRequest: null });
const hour = 3600_000;
const jobs = 2500; // more than a page of a source
const show = (job) => console.log(JSON.stringify(job));

const shown = (prefix, queue, job, attempts) => show({
  id: `${prefix}:${queue}:${job.id}`, due: job.timestamp + job.opts.delay, queue, type: job.name,
  payload: JSON.stringify(job.data), attempts, refused: false,
});

const mails = new Queue('mails', { connection });
const wanted = Array.from({ length: jobs }, (_, i) => ({
  name: 'welcome', data: { n: i, text: 'grüße' },
  opts: { delay: hour + Math.floor(i / 50), ...(i % 3 ? { attempts: i % 3 + 1, backoff: 1000 } : {}) },
}));
(await mails.addBulk(wanted)).forEach((job, i) => shown('bull', 'mails', job, i % 3 + 1));
shown('bull', 'mails', await mails.add('once', { n: 1 }, { delay: hour, jobId: 'own-id' }), 1);
shown('bull', 'mails', await mails.add('once', { n: 2 }, { delay: hour, deduplication: { id: 'dedup' } }), 1);

const reports = new Queue('reports', { connection, prefix: 'jobs' });
shown('jobs', 'reports', await reports.add('daily', [1, 2], { delay: hour }), 1);

// A job that has failed once waits for its second attempt.
const failing = await reports.add('failing', {}, { attempts: 3, backoff: hour });
const worker = new Worker('reports', async () => { throw new Error('on purpose'); }, { connection, prefix: 'jobs' });
await new Promise((resolve) => { worker.once('failed', resolve); });
await worker.close();
const failed = await reports.getJob(failing.id);
const score = await connection.zscore('jobs:reports:delayed', failing.id);
show({
  id: `jobs:reports:${failed.id}`, due: Math.floor(Number(score) / 4096), queue: 'reports', type: 'failing', payload: '{}',
  attempts: 2, refused: false,
});

const repeating = await mails.upsertJobScheduler('ticks', { pattern: '0 3 1 1 *' }, { name: 'tick' });
show({ id: `bull:mails:${repeating.id}`, refused: true });
const flows = new FlowProducer({ connection });
const flow = await flows.add({
  name: 'parent', queueName: 'parents', children: [{ name: 'child', queueName: 'mails', data: {}, opts: { delay: hour } }],
});
show({ id: `bull:mails:${flow.children[0].job.id}`, refused: true });

await Promise.all([mails.close(), reports.close(), flows.close()]);
await connection.quit();
