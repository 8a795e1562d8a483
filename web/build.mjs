// Builds the dashboard into dist: one script, one sheet and one icon with hashed names, and the page that names them.
// The same sources and the same package-lock.json give the same bytes.
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(fileURLToPath(import.meta.url));
const dist = process.argv[2] || join(root, 'dist');
const vendored = ['preact', 'htm', 'uplot'];

async function bundle() {
  const result = await build({
    absWorkingDir: root,
    entryPoints: { app: 'src/main.js', style: 'src/style/index.css' },
    outdir: join(dist, 'assets'),
    entryNames: '[name]-[hash]',
    bundle: true,
    format: 'esm',
    minify: true,
    legalComments: 'none',
    charset: 'utf8',
    target: ['chrome123', 'firefox121', 'safari17.5'],
    metafile: true,
    logLevel: 'warning',
  });
  return Object.keys(result.metafile.outputs).map((path) => basename(path));
}

function hashed(path) {
  const bytes = readFileSync(path);
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 8).toUpperCase();
  const name = basename(path).replace('.', `-${hash}.`);
  cpSync(path, join(dist, 'assets', name));
  return name;
}

function licences() {
  const texts = vendored.map((name) => {
    const folder = join(root, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const text = readFileSync(join(folder, 'LICENSE'), 'utf8').trim();
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  return texts.join(`\n${'-'.repeat(80)}\n\n`);
}

rmSync(dist, { recursive: true, force: true });
mkdirSync(join(dist, 'assets'), { recursive: true });
const names = await bundle();
const page = readFileSync(join(root, 'src/index.html'), 'utf8')
  .replace('{script}', names.find((n) => n.endsWith('.js')))
  .replace('{style}', names.find((n) => n.endsWith('.css')))
  .replaceAll('{icon}', hashed(join(root, 'src/bell.svg')));
writeFileSync(join(dist, 'index.html'), page);
writeFileSync(join(dist, 'LICENSES.txt'), licences());
