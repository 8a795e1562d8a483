// Runs Lighthouse, as on a phone, on a sample of the site's pages, or on all with SITE_ALL=1.
//
//	node lighthouse.mjs ROOT
import { readdirSync } from 'node:fs';
import { judge, phone } from './points.mjs';
import { serve } from './server.mjs';

const root = process.argv[2];
const sample = ['index.html', 'reference/api/types.html', 'zh/concepts.html'];
const all = readdirSync(root, { recursive: true }).filter((name) => name.endsWith('.html') && name !== '404.html').sort();
const pages = process.env.SITE_ALL ? all : sample;

const server = await serve(root);
try {
  console.log(`note: Lighthouse on ${pages.length} of ${all.length} pages: ${await judge(server.url, pages, phone)}`);
} finally {
  server.close();
}
