// Checks the built site: each link and each source leads to a file of it, and each anchor to an element; nothing that a
// page loads comes from another server. With --outside it lists the links that lead elsewhere, which it cannot follow.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const [root, ...flags] = process.argv.slice(2);
const pages = readdirSync(root, { recursive: true }).filter((name) => name.endsWith('.html')).sort();
const faults = [];
const outside = new Map();
let links = 0;

const decode = (text) => text.replaceAll('&amp;', '&').replaceAll('&#39;', "'").replaceAll('&quot;', '"');
const html = new Map(pages.map((name) => [name, readFileSync(join(root, name), 'utf8')]));
const ids = new Map([...html].map(([name, text]) => [name,
  new Set([...text.matchAll(/\sid="([^"]*)"/g)].map((match) => decode(match[1])))]));

for (const [name, text] of html) {
  // The bodies of scripts hold no links of the page.
  for (const [, tag, attribute, value] of text.replace(/<script(?![^>]*src=)[\s\S]*?<\/script>/g, '')
    .matchAll(/<(\w+)(?=\s)[^>]*?\s(href|src|srcset)="([^"]*)"/g)) {
    const target = decode(value);
    if (/^(data|mailto):/.test(target)) continue;
    if (/^([a-z]+:)?\/\//i.test(target)) {
      if (tag !== 'a') faults.push(`${name} loads ${target}`);
      else outside.set(target, name);
      continue;
    }
    links++;
    const [path, fragment] = target.split('#');
    let file = path === '' ? name : relative(root, path.startsWith('/') ? join(root, decodeURI(path))
      : resolve(root, dirname(name), decodeURI(path)));
    if (file === '' || path.endsWith('/')) file = join(file, 'index.html');
    if (!existsSync(join(root, file))) faults.push(`${name}: ${tag} ${attribute} ${target}: no such file`);
    else if (fragment && !ids.get(file)?.has(decodeURIComponent(fragment))) {
      faults.push(`${name}: ${target}: no such anchor`);
    }
  }
}

// Scripts and styles load nothing from elsewhere either.
for (const name of readdirSync(root, { recursive: true }).filter((file) => /\.(css|js)$/.test(file))) {
  const source = readFileSync(join(root, name), 'utf8');
  for (const [found] of source.matchAll(/(?:url\(|@import\s+|import\(?|fetch\()\s*["']?https?:\/\/[^"')\s]+/g)) {
    faults.push(`${name} loads ${found}`);
  }
}

if (flags.includes('--outside')) {
  const hosts = [...outside].filter(([target]) => !target.startsWith('https://github.com/belfryhq/belfry/'));
  console.log(hosts.map(([target, name]) => `outside: ${target} (${name})`).join('\n'));
  console.log(`NOT TESTED: ${hosts.length} links to other servers, and ${outside.size - hosts.length} to the code host`);
}
if (pages.length < 20 || links < 500) faults.push(`only ${pages.length} pages with ${links} links are there`);
console.log(`${pages.length} pages, ${links} links, ${outside.size} of other servers, ${faults.length} faults`);
if (faults.length) {
  console.error([...new Set(faults)].join('\n'));
  process.exit(1);
}
