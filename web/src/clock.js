// The cluster's time, as far as the page knows it. Relative times on the page count from it, since the browser's clock
// may be wrong, and the clock of a node for tests can be set ahead.

const clock = { offsetMs: 0, exact: false };

export function now() {
  return Date.now() + clock.offsetMs;
}

// learn takes an instant that the cluster has just told, in Unix milliseconds.
export function learn(instantMs) {
  clock.offsetMs = instantMs - Date.now();
  clock.exact = true;
}

// learnDate takes the header Date of an answer, which is in whole seconds. It only corrects a clock that is far off.
export function learnDate(text) {
  const at = Date.parse(text);
  if (clock.exact || Number.isNaN(at)) return;
  const off = at + 500 - Date.now();
  clock.offsetMs = Math.abs(off) > 2000 ? off : 0;
}
