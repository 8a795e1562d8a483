// The last changes to a page's HTML. A page can be read, and its links can be followed, without its scripts. So a small
// screen gets them with the first touch, key or move of the pointer: a phone on a slow network shows the text sooner. A
// wide screen has room for the outline of the page, which the scripts make, and gets them when the page is there. A click
// on a button that comes before the scripts is repeated when they are there. The class awake ends the lazy layout of the
// style sheet, which would mislead jumps to headings.
const wake = (app) => `(() => {
  const signs = ['pointermove', 'pointerdown', 'touchstart', 'keydown', 'scroll', 'focusin'];
  const root = document.documentElement.classList;
  let early, woken;
  if (location.hash) root.add('awake');
  const note = (event) => { early = event.target.closest?.('button') || early; };
  const ready = () => {
    if (!document.getElementById('app').__vue_app__) return setTimeout(ready, 20);
    document.removeEventListener('click', note, true);
    if (!root.contains('awake')) {
      root.add('awake');
      if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    }
    if (early?.isConnected) early.click();
  };
  const begin = () => {
    if (woken) return;
    woken = true;
    signs.forEach((sign) => removeEventListener(sign, begin, true));
    import('${app}').then(ready);
  };
  document.addEventListener('click', note, true);
  signs.forEach((sign) => addEventListener(sign, begin, { capture: true, passive: true }));
  if (matchMedia('(min-width: 960px)').matches) addEventListener('load', begin);
})()`.replace(/\n\s*/g, ' ');

export function lighten(html) {
  const app = /<script type="module" src="([^"]+)"><\/script>/.exec(html);
  if (!app) throw new Error('a page has no script of VitePress');
  const first = /<img[^>]*src="([^"]+)"[^>]*fetchpriority="high"/.exec(html);
  return html.replace(app[0], `<script type="module">${wake(app[1])}</script>`)
    .replace(/\s*<link rel="modulepreload"[^>]*>/g, '')
    .replace(/(\s*)<link rel="preload stylesheet"/, first
      ? `$1<link rel="preload" as="image" href="${first[1]}" fetchpriority="high">$&` : '$&');
}
