// The frame of all pages: the views while the session begins, without a session, and with one.
import { useEffect, useRef } from 'preact/hooks';
import { html } from './html.js';
import { Chrome } from './parts/chrome.js';
import { Dialogs } from './parts/dialog.js';
import { Toasts } from './parts/toast.js';
import { useKeyboard } from './keyboard.js';
import { NotFound } from './pages/notfound.js';
import { SignIn } from './pages/signin.js';
import { Unreachable } from './pages/unreachable.js';
import { pages } from './pagestable.js';
import { match, useRoute } from './router.js';
import { chooseNamespace, useSession } from './session.js';
import { settings } from './settings.js';
import { useStore } from './store.js';
import { t } from './i18n.js';

export function App() {
  useStore(settings);
  const { state } = useSession();
  if (state === 'starting') return html`<main class="centre" aria-busy="true"><p class="muted">${t('app.starting')}</p>
    </main>`;
  if (state === 'out') return html`<${SignIn} />`;
  if (state !== 'in') return html`<${Unreachable} />`;
  return html`<${Signed} />`;
}

function Signed() {
  const { path, query } = useRoute();
  const { namespace, caller, namespaces } = useSession();
  const main = useRef(null);
  useKeyboard();
  useNamespaceOf(query, namespace, caller, namespaces);
  useFocusOnPage(path, main);
  const found = match(pages, path);
  const Page = found ? found.page : NotFound;
  return html`
    <${Chrome} path=${path}>
      <main id="main" tabindex="-1" ref=${main} key=${`${namespace}/${path}`}>
        <${Page} ...${found?.params} query=${query} />
      </main>
    <//>
    <${Dialogs} />
    <${Toasts} />`;
}

// useNamespaceOf follows the namespace in the address, as after a step back in the history.
function useNamespaceOf(query, namespace, caller, namespaces) {
  const wanted = query.get('ns') || caller.namespace;
  useEffect(() => {
    if (wanted !== namespace && (namespaces.includes(wanted) || wanted === caller.namespace)) chooseNamespace(wanted);
  }, [wanted]);
}

// useFocusOnPage moves the focus to a page that was opened, as a browser does when it loads one, and sets the title.
function useFocusOnPage(path, main) {
  const first = useRef(true);
  useEffect(() => {
    const heading = main.current?.querySelector('h1')?.textContent;
    document.title = heading && path ? `${heading} · Belfry` : 'Belfry';
    const searching = document.activeElement?.id === 'search'; // already, before the page was drawn
    if (!first.current && !searching) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [path]);
}
