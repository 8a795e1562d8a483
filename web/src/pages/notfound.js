// An address without a page.
import { html } from '../html.js';
import { href } from '../router.js';
import { t } from '../i18n.js';

export function NotFound() {
  return html`<h1>${t('notfound.title')}</h1><p>${t('notfound.text')}</p><p><a class="button" href=${href('')}>
    ${t('nav.overview')}</a></p>`;
}
