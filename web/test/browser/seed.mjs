// Tasks, queues and schedules for pages to show.
import { eventually } from './cluster.mjs';

const hour = 3600e3;

// seed fills the namespace default: waiting tasks from seconds to years, delivered ones, dead letters, schedules.
export async function seed({ api }, receiver) {
  await api('PUT', '/v1/queues/orders',
    { target: { url: `${receiver.url}/ok` }, max_in_flight: 50,
      window: { daily: ['00:00-23:59'], time_zone: 'Europe/Berlin' } });
  await api('PUT', '/v1/queues/mails', { target: { url: `${receiver.url}/ok` }, max_per_second: 20 });
  await api('PUT', '/v1/queues/broken',
    { target: { url: `${receiver.url}/bad` }, retry: { max_attempts: 2, delays: ['1s'] } });
  await api('PUT', '/v1/queues/reports', {});
  await api('POST', '/v1/queues/mails/pause');
  const tasks = [];
  for (let i = 0; i < 240; i++) {
    const delay = Math.round(1000 * 1.105 ** i) % (40 * 365 * 24 * hour);
    tasks.push(api('PUT', `/v1/tasks/order-${1000 + i}`,
      { queue: i % 5 ? 'orders' : 'reports', delay: `${delay + 2000}ms`, payload: { order: 1000 + i },
        labels: { tenant: i % 3 ? 'acme' : 'globex' } }));
  }
  for (let i = 0; i < 20; i++) tasks.push(api('PUT', `/v1/tasks/now-${i}`,
    { queue: 'orders', delay: '0s', payload: { i } }));
  for (let i = 0; i < 5; i++) tasks.push(api('PUT', `/v1/tasks/lost-${i}`,
    { queue: 'broken', delay: '0s', payload: { i }, labels: { tenant: 'acme' } }));
  for (let i = 0; i < 8; i++) tasks.push(api('PUT', `/v1/tasks/mail-${i}`, { queue: 'mails', delay: '0s' }));
  await Promise.all(tasks);
  await api('PUT', '/v1/schedules/report',
    { repeat: { cron: ['0 9 * * MON-FRI'], time_zone: 'Europe/Berlin' }, note: 'the morning report',
      task: { queue: 'reports', payload: { kind: 'daily' } } });
  await api('PUT', '/v1/schedules/heartbeat', { repeat: { every: '2s' }, overlap: 'allow', task: { queue: 'orders' } });
  await api('PUT', '/v1/schedules/paused',
    { repeat: { every: '1h' }, paused: true, note: 'until the warehouse has moved' });
  await eventually('five dead letters', async () => (await api('GET', '/v1/queues/broken')).counts.dead === 5);
}
