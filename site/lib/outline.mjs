// The order of the pages. A page that does not exist is left out, and a page without a place here fails the build.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const docs = fileURLToPath(new URL('../../docs', import.meta.url));

const english = [
  ['First steps', ['index', 'first-five-minutes', 'concepts', 'install']],
  ['Guides', ['guides/unpaid-order', 'guides/reminders', 'guides/heartbeats-and-debounce', 'guides/cron-jobs',
    'guides/schedule-once', 'guides/send-windows', 'guides/order-and-groups', 'receiving', 'schedules', 'testing', 'history',
    'guides/from-go', 'command-line', 'guides/coming-from', 'guides/*']],
  ['Operating', ['operating', 'growing', 'faults', 'limits', 'operations', 'runbooks/README', 'runbooks/*']],
  ['Security', ['security', 'quotas', 'threats']],
  ['Reference', ['reference/api', 'reference/command-line', 'reference/metrics', 'reference/*']],
  ['How and why', ['how-it-works', 'comparison', 'speed', 'architecture', 'break-it', 'siege', 'soak']],
];

const chinese = [
  ['入门', ['zh/index', 'zh/first-five-minutes', 'zh/concepts']],
];

// Names in the side bar that are shorter than the titles of their pages.
const names = {
  index: 'Belfry in short',
  'zh/index': 'Belfry 是什么',
  operating: 'Operating in short',
  operations: 'The handbook',
  'runbooks/README': 'Runbooks',
  security: 'Security of a cluster',
  'guides/coming-from': 'Coming from another scheduler',
  'reference/api': 'HTTP API',
  'reference/command-line': 'Command line',
  'reference/metrics': 'Metrics',
  speed: 'Speed',
  architecture: 'The packages',
  faults: 'Faults and their effects',
  growing: 'From one machine to fifty',
  siege: 'A siege',
  soak: 'An hour of load',
};

// listed returns the names of all pages, without their endings.
export function listed() {
  return readdirSync(docs, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md') && !entry.parentPath.includes('node_modules'))
    .map((entry) => relative(docs, join(entry.parentPath, entry.name)).slice(0, -'.md'.length)).sort();
}

function title(page) {
  const heading = /^# (.+)$/m.exec(readFileSync(join(docs, `${page}.md`), 'utf8'));
  if (!heading) throw new Error(`docs/${page}.md has no title`);
  return heading[1].replaceAll('`', '');
}

function item(page) {
  return { text: names[page] || title(page), link: `/${page.replace(/(^|\/)index$/, '$1')}` };
}

// sidebar returns the groups with their pages. A page behind a star has no place of its own.
function sidebar(groups, placed) {
  const all = listed();
  return groups.map(([text, patterns]) => {
    const items = [];
    for (const pattern of patterns) {
      const found = pattern.endsWith('*')
        ? all.filter((page) => page.startsWith(pattern.slice(0, -1)) && !placed.has(page))
        : all.filter((page) => page === pattern && !placed.has(page));
      found.forEach((page) => placed.add(page));
      if (pattern === 'runbooks/*' && found.length) {
        items.push({ text: 'Each alert', collapsed: true, items: found.map(item) });
      } else items.push(...found.map(item));
    }
    return { text, items };
  });
}

const placed = new Set();
export const sidebars = { english: sidebar(english, placed), chinese: sidebar(chinese, placed) };

const forgotten = listed().filter((page) => !placed.has(page));
if (forgotten.length) throw new Error(`site/lib/outline.mjs has no place for docs/${forgotten.join('.md, docs/')}.md`);
