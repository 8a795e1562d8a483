// The sign-in: a key, kept in this tab until it is closed.
import { useRef, useState } from 'preact/hooks';
import { html } from '../html.js';
import { signIn, useSession } from '../session.js';
import { route } from '../router.js';
import { t } from '../i18n.js';
import { Icon } from '../parts/icon.js';
import { Button, Command, Field } from '../parts/ui.js';

export function SignIn() {
  const { reason, expired } = useSession();
  const box = useRef(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    const refusal = await signIn(box.current.value.trim(), route.value.query.get('ns') || '');
    setBusy(false);
    setProblem(refusal);
    if (refusal) box.current?.focus();
  };
  const shown = problem || reason;
  return html`<main class="centre">
    <form class="signin card" onSubmit=${submit}>
      <p class="brand"><${Icon} name="bell" /><span>Belfry</span></p>
      <h1>${t(expired ? 'signin.again' : 'signin.title')}</h1>
      <p>${t(expired ? 'signin.expired' : 'signin.text')}</p>
      <${Field} label=${t('signin.key')}
        error=${shown && (shown.detail || (shown.status ? shown.title : t('problem.unreachable')))}>
        ${(tied) => html`<input ...${tied} ref=${box} type="password" required autofocus autocomplete="off"
          spellcheck=${false} placeholder="bfy_…" />`}
      <//>
      <${Button} type="submit" kind="primary" busy=${busy}>${t('signin.do')}<//>
      <details><summary>${t('signin.none')}</summary>
        <p>${t('signin.make')}</p><${Command} text="belfry key create me --role admin --namespace '*'" /></details>
    </form>
  </main>`;
}
