// Colours of the style sheet for canvases, which cannot use custom properties.

const probe = document.createElement('span');
probe.hidden = true;
const system = matchMedia('(prefers-color-scheme: dark)');
const known = new Map();
let theme = '';

// colour returns the present value of a custom property as rgb(…).
export function colour(name) {
  const present = `${document.documentElement.dataset.theme} ${system.matches}`;
  if (present !== theme) known.clear();
  theme = present;
  if (!known.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}

// faded returns a colour with an opacity.
export function faded(rgb, alpha) {
  const [r, g, b] = rgb.match(/[\d.]+/g);
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

// onColours calls a function when the colours change: the viewer chose another theme, or the system did.
export function onColours(change) {
  const watcher = new MutationObserver(change);
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  system.addEventListener('change', change);
  return () => {
    watcher.disconnect();
    system.removeEventListener('change', change);
  };
}

// fit gives a canvas as many pixels as it takes on the screen, and returns its context in units of the page. A canvas
// that is turned needs its size, since its box is that of the turned one.
export function fit(canvas, size) {
  const ratio = Math.min(devicePixelRatio || 1, 3);
  const { width, height } = size ? { width: size, height: size } : canvas.getBoundingClientRect();
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height, ratio };
}
