// The changes of the site to the pages: links that leave docs/ lead to the code host, and pictures get their size.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { docs } from './outline.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));
export const codeHost = 'https://github.com/belfryhq/belfry';

// leavesDocs reports whether a path in the repository is no page of the site.
const leavesDocs = (path) => path.startsWith('..') || !/\.(md|svg|png)$/.test(path);

// onSite returns the target of a relative link on the site. page is the path of the file with the link.
export function onSite(href, page) {
  if (/^([a-z][a-z0-9+.-]*:|#|\/)/i.test(href)) return href;
  const [path, fragment] = href.split('#');
  const file = join(dirname(page), decodeURI(path));
  if (!leavesDocs(relative(docs, file))) return href;
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
  });
}
