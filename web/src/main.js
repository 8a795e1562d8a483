// The dashboard of Belfry.
import { options, render } from 'preact';
import { html } from './html.js';
import { App } from './app.js';
import { begin } from './session.js';
import { follow, route } from './router.js';

// Answers that come together are drawn together, in the browser's next picture. A hidden page has none.
options.debounceRendering = (draw) => (document.hidden ? setTimeout(draw) : requestAnimationFrame(draw));
document.addEventListener('click', follow);
render(html`<${App} />`, document.getElementById('app'));
begin(route.value.query.get('ns') || '');
