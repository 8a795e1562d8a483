// Every page: drawn without an error, without a finding of axe-core, at 1440 and 390 pixels, light and dark, in both
// languages.
import { after, before, test } from 'node:test';
import { startCluster, startReceiver } from './cluster.mjs';
import {
  assertNoFaults, drawn, inspect, launch, noSidewaysScroll, openPage, picture, pictured, slow, steady,
} from './browser.mjs';
import { seed } from './seed.mjs';

const pages = [
  ['overview', '', 'canvas'], ['tasks', 'tasks', 'tbody tr'],
    ['filtered', 'tasks?state=dead&label=tenant=acme', '.chip'],
  ['nomatch', 'tasks?prefix=nothing', '.empty'], ['newtask', 'new/task', 'form'],
    ['waiting', 'tasks/order-1239', '.timeline'],
  ['delivered', 'tasks/now-1', '.timeline'], ['deadtask', 'tasks/lost-1', '.timeline'],
    ['gone', 'tasks/never-was', '.sentence'],
  ['schedules', 'schedules', 'tbody tr'], ['schedule', 'schedules/heartbeat', '.runs'],
    ['newschedule', 'new/schedule', '.runs'],
  ['editschedule', 'schedules/report/edit', '.runs'], ['queues', 'queues', 'tbody tr'],
    ['queue', 'queues/orders', '.figures'],
  ['dead', 'dead', 'tbody tr'], ['events', 'events', 'tbody tr'], ['cluster', 'cluster', '.node'],
    ['operations', 'operations', '.empty'],
  ['keys', 'keys', '.empty'], ['namespaces', 'namespaces', '.cards .card'], ['audit', 'audit', 'tbody tr'],
    ['nopage', 'nothing/here', 'h1'],
];

let cluster;
let receiver;
let browser;

before(async () => {
  [cluster, receiver, browser] = await Promise.all([startCluster(), startReceiver(), launch()]);
  await seed(cluster, receiver);
});
after(async () => {
  await browser?.close();
  await cluster?.stop();
  await receiver?.stop();
});

const phone = { width: 390, height: 844 };
const china = { locale: 'zh-CN', zone: 'Asia/Shanghai' };
// The first two have each width, each scheme and each language once. Each of them takes every other page. For pictures,
// and with WEB_ALL=1, all take all pages.
const views = Object.entries({
  'light-1440': {}, 'zh-dark-390': { ...phone, ...china, scheme: 'dark' },
  'zh-dark-1440': { ...china, scheme: 'dark' }, 'dark-390': { ...phone, scheme: 'dark' },
});

const all = pictured || process.env.WEB_ALL;

for (const [turn, [name, view]] of (all ? views : views.slice(0, 2)).entries()) {
  test(`pages, ${name}`, async (t) => {
    const page = await openPage(browser, cluster.url, view);
    for (const [title, path, sign] of pages.filter((_, i) => all || i % 2 === turn)) {
      await t.test(title, async () => {
        page.faults.length = 0;
        await page.visit(path);
        await drawn(page, sign);
        await picture(page, `${name}-${title}`);
        await inspect(page, `${title} ${name}`);
        await noSidewaysScroll(page, title);
        assertNoFaults(page);
      });
    }
    await page.context().close();
  });
}

// Little room makes parts push each other furthest. The list of events is left out: it moves with each event.
test('pages that come slowly stay in their place', async (t) => {
  const page = await openPage(browser, cluster.url, phone);
  await slow(page, 150);
  for (const [title, path, sign] of pages.filter(([name]) => name !== 'events')) {
    await t.test(title, async () => {
      await page.visit(path);
      await drawn(page, sign);
      await steady(page, title);
    });
  }
  await page.context().close();
});
