// A real browser, and pages that are watched: errors, refused loads and requests to other servers fail a test.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const pictures = process.env.BELFRY_SCREENSHOTS || '';
export const pictured = pictures !== '';

export function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'] });
}

// openPage opens a tab of its own. faults collects errors and forbidden requests.
export async function openPage(browser, url,
  { width = 1440, height = 1000, scheme = 'light', locale = 'en-GB', zone = 'Europe/Berlin', path = '' } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale,
    timezoneId: zone, reducedMotion: 'no-preference' });
  await context.addInitScript(() => {
    globalThis.shifts = [];
    new PerformanceObserver((list) => globalThis.shifts.push(...list.getEntries().map((e) => ({ value: e.value,
      by: e.sources.map((s) => `${s.node?.nodeName}.${s.node?.className}`) }))))
      .observe({ type: 'layout-shift', buffered: true });
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.faults = [];
  page.on('pageerror', (err) => page.faults.push(`error: ${err.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error'
      && !/Failed to load resource/.test(message.text())) page.faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const to = new URL(request.url());
    if (to.protocol !== 'data:' && to.origin !== new URL(url).origin) page.faults.push(`request to ${to.origin}`);
  });
  page.visit = (to) => page.goto(`${url}/ui/${to}`);
  await page.visit(path);
  return page;
}

export function assertNoFaults(page) {
  assert.deepEqual(page.faults, []);
}

// inspect lets axe-core look at the page. Its findings fail the test.
export async function inspect(page, name) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const found = result.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0,
    3).map((n) => `${n.target.join(' ')} ${n.failureSummary}`).join(' | ')}`);
  assert.deepEqual(found, [], `axe-core on ${name}`);
}

// drawn waits until the page shows a sign of its content, and no part that still loads, and two more pictures, in which
// canvases are painted. It looks at each picture: a locator looks again after half a second at last.
export async function drawn(page, sign) {
  await page.waitForFunction((selector) => document.querySelector(selector)?.checkVisibility()
    && !document.querySelector('.loading'), sign);
  await page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(done));
  }));
}

// steady checks that drawn parts stay in their place while the rest of the page comes. A good page has a score below
// 0.1.
export async function steady(page, name) {
  const shifts = await page.evaluate(() => globalThis.shifts);
  const score = shifts.reduce((sum, s) => sum + s.value, 0);
  assert.ok(score < 0.1, `${name} moves by ${score}: ${JSON.stringify(shifts)}`);
}

// slow gives all requests of the page a delay.
export async function slow(page, latency) {
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.emulateNetworkConditions',
    { offline: false, latency, downloadThroughput: -1, uploadThroughput: -1 });
}

// picture writes a screenshot, if a folder for them is given.
export async function picture(page, name, fullPage = true) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage });
}

// noSidewaysScroll checks that nothing is wider than the screen.
export async function noSidewaysScroll(page, name) {
  const wide = await page.evaluate(() => {
    const limit = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= limit) return [];
    return [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > limit + 1
      && !e.closest('.table-frame, .pages, .scroll, pre'))
      .slice(0, 5).map((e) => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`);
  });
  assert.deepEqual(wide, [], `${name} is wider than the screen`);
}
