// Runs Lighthouse on the pages of the dashboard, with a real cluster behind them: on a sample, or on all with
// SITE_ALL=1. BELFRY is the path of the program. The device is a computer: the three nodes run on the same processors,
// and a phone's quarter of them would measure the nodes' work as well.
import { startCluster, startReceiver } from '../../web/test/browser/cluster.mjs';
import { seed } from '../../web/test/browser/seed.mjs';
import { computer, judge } from './points.mjs';

const sample = ['', 'tasks'];
const all = [...sample, 'queues', 'tasks?state=dead&label=tenant=acme', 'tasks/order-1239', 'new/task', 'schedules',
  'schedules/report', 'new/schedule', 'queues/orders', 'dead', 'events', 'cluster', 'operations', 'keys', 'namespaces',
  'audit'];
const pages = process.env.SITE_ALL ? all : sample;

const [cluster, receiver] = await Promise.all([startCluster(), startReceiver()]);
try {
  await seed(cluster, receiver);
  // Each event moves the list of events, as it should, and Lighthouse would take that for a page that comes in pieces.
  await cluster.api('POST', '/v1/schedules/heartbeat/pause');
  const points = await judge(cluster.url, pages.map((page) => `ui/${page}`), computer);
  console.log(`note: on ${pages.length} of ${all.length} pages of the dashboard: ${points}`);
} finally {
  await cluster.stop();
  await receiver.stop();
}
