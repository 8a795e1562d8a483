// Measures pages with Lighthouse. Each page must have 95 points for performance and for accessibility, and load nothing
// from another server. A page that misses the points for performance is measured again, for other programs share the
// processors.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { launch } from 'chrome-launcher';
import lighthouse, { desktopConfig } from 'lighthouse';

// The devices: a phone with a slow network and a quarter of this machine's speed, and a computer.
export const phone = undefined; // Lighthouse's default
export const computer = desktopConfig;

const least = 95;
const tries = 4;
const longest = 12_000; // milliseconds; pages with live figures never become quiet

// measure returns the points of one page, and its faults.
async function measure(base, page, device, port) {
  const { lhr } = await lighthouse(`${base}/${page}`, { port, logLevel: 'error', output: 'json',
    maxWaitForLoad: longest, onlyCategories: ['performance', 'accessibility'] }, device);
  if (lhr.runtimeError) throw new Error(`${page}: ${lhr.runtimeError.message}`);
  const points = (category) => Math.round(100 * lhr.categories[category].score);
  const foreign = (lhr.audits['network-requests'].details?.items || []).map((item) => item.url)
    .filter((url) => !url.startsWith(base) && !url.startsWith('data:'));
  const failed = lhr.categories.accessibility.auditRefs.map((ref) => lhr.audits[ref.id])
    .filter((audit) => audit.score === 0).map((audit) => audit.id);
  return { page, performance: points('performance'), accessibility: points('accessibility'), foreign, failed,
    paint: lhr.audits['largest-contentful-paint'].displayValue,
    shift: lhr.audits['cumulative-layout-shift'].displayValue };
}

// judge measures pages of the server at the URL base on a device, prints their points, and throws an error if a page
// fails. It returns the lowest points in words.
export async function judge(base, pages, device) {
  const profile = mkdtempSync(join(tmpdir(), 'lighthouse-'));
  const chrome = await launch({ chromePath: process.env.CHROMIUM || '/usr/bin/chromium', userDataDir: profile,
    chromeFlags: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
  const results = [];
  try {
    for (const page of pages) {
      let best;
      for (let i = 0; i < tries && (!best || best.performance < least); i++) {
        const result = await measure(base, page, device, chrome.port);
        if (!best || result.performance > best.performance) best = result;
      }
      results.push(best);
      console.log(`${String(best.performance).padStart(3)} ${String(best.accessibility).padStart(3)}  /${page}`
        + `  paint ${best.paint}, shift ${best.shift}`);
    }
  } finally {
    await chrome.kill();
    rmSync(profile, { recursive: true, force: true });
  }
  const faults = results.filter((r) => r.performance < least || r.accessibility < least || r.foreign.length);
  if (faults.length || !results.length) throw new Error(`Lighthouse: ${JSON.stringify(faults, null, 1)}`);
  const low = (category) => Math.min(...results.map((result) => result[category]));
  return `performance from ${low('performance')}, accessibility from ${low('accessibility')}`;
}
