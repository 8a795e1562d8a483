// Both languages have the same texts, with the same parameters, and the modules use no text that is missing.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import en from '../../src/en.js';
import zh from '../../src/zh.js';

const root = new URL('../../src', import.meta.url).pathname;
const modules = readdirSync(root, { recursive: true }).filter((name) => name.endsWith('.js')
  && !/^(en|zh)\.js$/.test(name));
const sources = modules.map((name) => readFileSync(join(root, name), 'utf8'));

test('both languages have the same keys', () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
});

test('a text has the parameters of its translation, or fewer', () => {
  const names = (text) => new Set(text.match(/\{\w+\}/g) || []);
  for (const [key, text] of Object.entries(zh)) {
    for (const name of names(text)) assert.ok(names(en[key]).has(name), `${key} has ${name} in Chinese only`);
  }
});

test('every text that is used is there', () => {
  for (const source of sources) {
    for (const [, key] of source.matchAll(/\bt\('([^']+)'/g)) assert.ok(key in en, `${key} is missing`);
  }
});

test('every text is used', () => {
  const all = sources.join('\n');
  const begins = [...all.matchAll(/`([\w.]*)\$\{/g)].map(([, begin]) => begin)
    .filter((begin) => begin.endsWith('.'));
  const groups = [...all.matchAll(/\bword\('(\w+)'/g)].map(([, group]) => `${group}.`);
  const dynamic = [...begins, ...groups, 'replay.', 'drop.', 'spause.', 'sresume.'];
  for (const key of Object.keys(en)) {
    assert.ok(all.includes(`'${key}'`) || dynamic.some((begin) => key.startsWith(begin)), `${key} is not used`);
  }
});
