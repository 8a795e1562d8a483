// The order of the pages. The first group is open, and the others are folded. A page that does not exist is left out,
// and a page without a place here fails the build.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const docs = fileURLToPath(new URL('../../docs', import.meta.url));

// The first level: the pages that a reader reads one after the other.
const english = [
  ['First steps', ['index', 'first-five-minutes', 'concepts', 'install', 'receiving', 'schedules', 'operating', 'faults',
    'how-it-works', 'comparison']],
  ['How do I …', ['guides/unpaid-order', 'guides/reminders', 'guides/heartbeats-and-debounce', 'guides/cron-jobs',
    'guides/schedule-once', 'guides/transactions', 'guides/follow-ups', 'guides/workers', 'guides/send-windows',
    'guides/order-and-groups', 'guides/proof', 'guides/testing', 'guides/history', 'guides/command-line',
    'guides/settings-in-files', 'guides/agents', 'guides/importing', 'guides/redis', 'guides/coming-from', 'guides/*']],
  ['Moving from …', ['moving/cron-table', 'moving/redis-sorted-set', 'moving/redis-key-expiry', 'moving/redisson',
    'moving/rabbitmq-delayed-exchange', 'moving/rabbitmq-ttl', 'moving/rocketmq', 'moving/*']],
  ['Clients', ['clients/go', 'clients/typescript', 'clients/python', 'clients/java', 'clients/spring',
    'clients/conformance']],
  ['How do I operate …', ['operations/security', 'operations/sizing', 'operations/nodes', 'operations/shards',
    'operations/upgrades', 'operations/backups', 'operations/recover', 'operations/watch', 'operations/*']],
  ['Runbooks', ['runbooks/README', 'runbooks/*']],
  ['Reference', ['reference/api', 'reference/command-line', 'reference/metrics', 'reference/doctor', 'reference/schedules',
    'reference/limits', 'reference/*']],
  ['Measurements', ['measurements/speed', 'measurements/*']],
];

const chinese = [
  ['入门', ['zh/index', 'zh/first-five-minutes', 'zh/concepts', 'zh/install', 'zh/receiving']],
];

// Names in the side bar that are shorter than the titles of their pages.
const names = {
  index: 'Belfry in short',
  'zh/index': 'Belfry 是什么',
  operating: 'Operating in short',
  faults: 'Faults and their effects',
  'runbooks/README': 'Runbooks',
  'guides/coming-from': 'Coming from another scheduler',
  'clients/go': 'Go',
  'clients/typescript': 'TypeScript',
  'clients/python': 'Python',
  'clients/java': 'Java',
  'clients/spring': 'Spring',
  'operations/security': 'Close a cluster, keys, roles',
  'reference/api': 'HTTP API',
  'reference/command-line': 'Command line',
  'reference/metrics': 'Metrics',
  'reference/doctor': 'Findings of belfry doctor',
  'reference/architecture': 'The packages',
  'measurements/speed': 'Speed',
  'measurements/siege': 'A siege',
  'measurements/soak': 'An hour of load',
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
      items.push(...found.map(item));
    }
    return { text, items, collapsed: text === groups[0][0] ? undefined : true };
  });
}

const placed = new Set();
export const sidebars = { english: sidebar(english, placed), chinese: sidebar(chinese, placed) };

const forgotten = listed().filter((page) => !placed.has(page));
if (forgotten.length) throw new Error(`site/lib/outline.mjs has no place for docs/${forgotten.join('.md, docs/')}.md`);
