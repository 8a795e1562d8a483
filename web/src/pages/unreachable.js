// The page of a node that does not answer, or refuses the page itself.
import { useEffect } from 'preact/hooks';
import { html } from '../html.js';
import { begin, useSession } from '../session.js';
import { route } from '../router.js';
import { t } from '../i18n.js';
import { Button, Refused } from '../parts/ui.js';

export function Unreachable() {
  const { state, reason } = useSession();
  const again = () => begin(route.value.query.get('ns') || '');
  useEffect(() => {
    if (state !== 'unreachable') return undefined;
    const id = setInterval(again, 3000);
    return () => clearInterval(id);
  }, [state]);
  return html`<main class="centre"><div class="card signin">
    <h1>${t(state === 'unreachable' ? 'unreachable.title' : 'unreachable.refused')}</h1>
    <${Refused} problem=${reason} />
    ${state === 'unreachable' && html`<p class="muted">${t('unreachable.text')}</p>`}
    <${Button} onClick=${again}>${t('retry')}<//>
  </div></main>`;
}
