// The command that makes the same call as the page.
import { inNamespace } from './api.js';
import { write } from './json.js';
import { session } from './session.js';

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// curl returns a command for a call in the namespace that is shown.
export function curl(method, path, body) {
  const parts = [`curl -X ${method} ${quote(location.origin + inNamespace(path))}`];
  if (session.value.caller?.kind !== 'local') parts.push('-H "Authorization: Bearer $BELFRY_KEY"');
  if (body !== undefined) parts.push(`--json ${quote(write(body))}`);
  return parts.join(' \\\n  ');
}
