// Serves a folder on loopback, with compression, as any static host does. It serves GET and HEAD alone.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';

const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.png': 'image/png', '.txt': 'text/plain' };

export async function serve(root, port = 0) {
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURI(new URL(request.url, 'http://localhost').pathname));
    const file = join(root, path.endsWith('/') ? `${path}index.html` : path);
    try {
      let body = await readFile(file);
      const type = types[extname(file)] || 'application/octet-stream';
      const head = { 'content-type': type, 'cache-control': 'max-age=600' };
      if (!type.startsWith('image/png') && /gzip/.test(request.headers['accept-encoding'] || '')) {
        body = gzipSync(body);
        head['content-encoding'] = 'gzip';
      }
      response.writeHead(200, head).end(request.method === 'HEAD' ? undefined : body);
    } catch {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('no such page');
    }
  });
  await new Promise((resolve) => { server.listen(port, '127.0.0.1', resolve); });
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
