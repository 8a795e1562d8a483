// Records the demo of a program into docs/pictures/demo.svg: node docs/pictures/demo.mjs bin/belfry. The picture shows
// the verdict, and then prints the lines three times as fast as the demo did, again and again. It stands still for
// readers who prefer that.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [charWidth, lineHeight, bar, margin] = [7.25, 17, 30, 16]; // pixels
const [speed, first, hold] = [3, 5, 12]; // times faster; seconds that the verdict stays, before and after the lines

const began = Date.now();
const demo = spawn(process.argv[2], ['demo'], { stdio: ['ignore', 'pipe', 'inherit'] });
const lines = [{ at: 0, text: '$ belfry demo' }];
for await (const line of createInterface({ input: demo.stdout })) {
  lines.push({ at: (Date.now() - began) / 1000 / speed, text: line });
}
if (demo.exitCode ?? await new Promise((resolve) => { demo.once('exit', resolve); })) process.exit(1);
const find = (pattern) => lines.findIndex(({ text }) => pattern.test(text));
lines.splice(find(/^ *verdict /) + 1); // the nodes stop
const verdict = lines.slice(find(/^ *scheduled +\d+ +each/));
const rows = verdict.length; // of the screen

const escape = (text) => text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);
const colour = (text) => escape(text)
  .replace(/^(\s*kill -9.*|\s*node-\d killed.*)$/, '<tspan class="bad">$1</tspan>')
  .replace(/^(\s*verdict.*)$/, '<tspan class="good">$1</tspan>')
  .replace(/○/, '<tspan class="bad">○</tspan>')
  .replace(/([█░]+)/, '<tspan class="bar">$1</tspan>');

const length = lines.at(-1).at + hold;
const share = ({ at }) => `${(100 * at / length).toFixed(2)}%`;
const scroll = (i) => `transform:translateY(${-lineHeight * Math.max(0, i + 1 - rows)}px)`;
const scrolled = new Map(lines.map((line, i) => [share(line), scroll(i)])); // the last of lines that come together
const width = Math.ceil(Math.max(...lines.map(({ text }) => text.length)) * charWidth + 2 * margin);
const height = bar + rows * lineHeight + margin;
const summary = [...verdict.slice(0, 6), verdict.at(-1)].map(({ text }) => text.trim().replace(/ +/g, ' ')).join('; ');
const animation = (name) => `animation: ${name} ${length.toFixed(1)}s step-end ${first}s infinite`;
const shown = (line, i) => `    .l${i} { ${animation(`l${i}`)} } `
  + `@keyframes l${i} { 0% { opacity: 0 } ${share(line)} { opacity: 1 } }`;
const drawn = ({ text }, i) =>
  `<text class="l${i}" x="${margin}" y="${bar + i * lineHeight + 13}">${colour(text)}</text>`;

writeFileSync(new URL('demo.svg', import.meta.url), `\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">
<title id="title">A recording of belfry demo</title>
<desc id="desc">${escape(summary)}</desc>
<style>
  .window { fill: #1b1c20; stroke: #33353b } .dot { fill: #50555e }
  text { fill: #d8d9dd; white-space: pre;
    font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace }
  .bad { fill: #ff8a7d } .good { fill: #7fd69b; font-weight: 600 } .bar { fill: #d9a860 }
  .all { ${scroll(lines.length - 1)} }
  @media (prefers-reduced-motion: no-preference) {
    .all { ${animation('all')} }
    @keyframes all { ${[...scrolled].map(([at, by]) => `${at} { ${by} }`).join(' ')} }
${lines.map(shown).slice(1).join('\n')}
  }
</style>
<rect class="window" x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="6"/>
${[16, 30, 44].map((x) => `<circle class="dot" cx="${x}" cy="15" r="4"/>`).join('')}
<clipPath id="screen"><rect y="${bar}" width="${width}" height="${rows * lineHeight}"/></clipPath>
<g clip-path="url(#screen)"><g class="all">
${lines.map(drawn).join('\n')}
</g></g>
</svg>
`);
