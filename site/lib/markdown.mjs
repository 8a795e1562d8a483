// The changes of the site to the pages: links that leave docs/ lead to the code host, and pictures get their size.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { docs } from './outline.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));
export const codeHost = 'https://github.com/belfryhq/belfry';

// leavesDocs reports whether a path in the repository is no page of the site.
const leavesDocs = (path) => path.startsWith('..') || !/\.(md|svg|png)$/.test(path);

// The README of a client is a page of the site, which a file in docs/clients includes.
const clients = ['typescript', 'python', 'java', 'spring'];
const readmes = new Map(clients.map((name) => [join(docs, 'clients', `${name}.md`),
  join(repository, 'clients', name, 'README.md')]));

// onSite returns the target of a relative link on the site. page is the path of the file with the link.
export function onSite(href, page) {
  if (/^([a-z][a-z0-9+.-]*:|#|\/)/i.test(href)) return href;
  const [path, fragment] = href.split('#');
  let file = join(dirname(readmes.get(page) || page), decodeURI(path));
  for (const [included, readme] of readmes) if (file === readme) file = included;
  if (!leavesDocs(relative(docs, file))) return relative(dirname(page), file) + (fragment ? `#${fragment}` : '');
  const target = relative(repository, file);
  const kind = existsSync(file) && target !== '' && !/\.[a-z]+$/i.test(target) && target !== 'Makefile'
    && target !== 'LICENSE' ? 'tree' : 'blob';
  return `${codeHost}/${kind}/main/${target}${fragment ? `#${fragment}` : ''}`;
}

// size returns the width and height of a picture, from the head of a PNG or the viewBox of an SVG.
export function size(file) {
  const data = readFileSync(file);
  if (file.endsWith('.png')) return [data.readUInt32BE(16), data.readUInt32BE(20)];
  const box = /viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(data.toString('utf8', 0, 2000));
  return box ? [Math.round(box[1]), Math.round(box[2])] : null;
}

// named gives the heading of a column without a text a name for screen readers.
function named(tokens, heading, page) {
  const at = tokens.indexOf(heading);
  if (tokens[at + 1].content !== '') return;
  const first = tokens[at - 1].type === 'tr_open';
  const name = page.startsWith('zh/') ? ['项目', '说明'] : ['subject', 'remark'];
  heading.attrSet('aria-label', first ? name[0] : name[1]);
}

const languages = { sh: 'curl', go: 'Go', ts: 'TypeScript', python: 'Python', java: 'Java' };

// tabbed makes groups of tabs out of the programs that stand together, and of the commands before them.
function tabbed(tokens, Token) {
  const out = [];
  for (let from = 0, to; from < tokens.length; from = to) {
    const names = new Set();
    for (to = from; tokens[to]?.type === 'fence' && languages[tokens[to].info]; to++) {
      if (names.has(tokens[to].info)) break;
      names.add(tokens[to].info);
    }
    if (names.size > 1) {
      tokens.slice(from, to).forEach((fence) => { fence.info += ` [${languages[fence.info]}]`; });
      out.push(new Token('container_code-group_open', 'div', 1), ...tokens.slice(from, to),
        new Token('container_code-group_close', 'div', -1));
    } else {
      to = from + 1;
      out.push(tokens[from]);
    }
  }
  return out;
}

export function adapt(md) {
  md.core.ruler.push('belfry', (state) => {
    const page = join(docs, state.env.relativePath);
    let pictures = 0;
    for (const block of state.tokens) {
      // The words of a fence behind its language are for docs/docstest.
      if (block.type === 'th_open') named(state.tokens, block, state.env.relativePath);
      if (block.type === 'fence') block.info = block.info.split(/\s/)[0].replace(/^output$/, 'txt');
      for (const token of block.children || []) {
        if (token.type === 'link_open') token.attrSet('href', onSite(token.attrGet('href'), page));
        if (token.type !== 'image') continue;
        const file = join(dirname(page), token.attrGet('src'));
        if (!existsSync(file)) continue;
        const [width, height] = size(file) || [];
        if (width) { token.attrSet('width', width); token.attrSet('height', height); }
        if (pictures++ === 0) token.attrSet('fetchpriority', 'high'); else token.attrSet('loading', 'lazy');
      }
    }
    state.tokens = tabbed(state.tokens, state.Token);
  });
}
