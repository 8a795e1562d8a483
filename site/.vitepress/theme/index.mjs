// VitePress's own theme without its font, in Belfry's colours. The language of a tab is remembered, and holds for all tabs.
import { nextTick } from 'vue';
import DefaultTheme from 'vitepress/theme-without-fonts';
import './style.css';

const kept = 'belfry-language';

function choose(language) {
  for (const label of document.querySelectorAll('.vp-code-group label')) {
    const tab = document.getElementById(label.htmlFor);
    if (label.dataset.title === language && !tab.checked) tab.click();
  }
}

export default {
  ...DefaultTheme,
  enhanceApp({ router }) {
    if (typeof window === 'undefined') return;
    document.addEventListener('change', ({ target }) => {
      const label = target.matches('.vp-code-group input') && document.querySelector(`label[for="${target.id}"]`);
      if (!label) return;
      localStorage.setItem(kept, label.dataset.title);
      choose(label.dataset.title);
    });
    router.onAfterRouteChange = () => nextTick(() => choose(localStorage.getItem(kept)));
  },
};
