// Live data: a call that is repeated while the page is visible. Data that could not be renewed stays, and the page says
// the instant since which it is stale.
import { useCallback, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Problem } from './api.js';
import { newStore } from './store.js';

// line is the state of the connection: the instant since which no call has come through, or 0.
export const line = newStore({ brokenSince: 0, lastMs: Date.now() });

function note(problem) {
  if (problem?.status === 0) {
    if (!line.value.brokenSince) line.set({ brokenSince: line.value.lastMs });
    return;
  }
  if (line.value.brokenSince) line.set({ brokenSince: 0, lastMs: Date.now() });
  else line.value.lastMs = Date.now();
}

// waitMs returns the time until the next call. It grows while calls fail, up to 10 s.
function waitMs(every, failures) {
  return failures === 0 ? every : Math.min(Math.max(every, 1000) * 2 ** Math.min(failures - 1, 4), 10_000);
}

// usePoll calls load now, each `every` milliseconds while the page is visible, and when deps change. With every 0 it
// calls once. load gets an AbortSignal.
export function usePoll(load, every, deps = []) {
  const [state, setState] = useState({ data: null, problem: null });
  const timer = useRef({});
  const latest = useRef(load);
  latest.current = load;

  const run = useCallback(async () => {
    const own = timer.current;
    clearTimeout(own.id);
    own.abort?.abort();
    const abort = new AbortController();
    own.abort = abort;
    let problem = null;
    try {
      const data = await latest.current(abort.signal);
      if (abort.signal.aborted) return;
      setState({ data, problem: null });
    } catch (err) {
      if (abort.signal.aborted) return;
      if (!(err instanceof Problem)) throw err;
      problem = err;
      setState((old) => ({ data: old.data, problem: err }));
    }
    note(problem);
    own.failures = problem ? (own.failures || 0) + 1 : 0;
    if (every > 0 && own.mounted && !forgoes(problem)) own.id = setTimeout(own.tick, waitMs(every, own.failures));
  }, [every]);

  useLayoutEffect(() => { // not after the next picture, which takes its time
    const own = timer.current;
    own.mounted = true;
    own.tick = () => (document.hidden ? null : run());
    const wake = () => (document.hidden ? clearTimeout(own.id) : run());
    document.addEventListener('visibilitychange', wake);
    run();
    return () => {
      own.mounted = false;
      document.removeEventListener('visibilitychange', wake);
      clearTimeout(own.id);
      own.abort?.abort();
    };
  }, [run, ...deps]);

  return { ...state, refresh: run };
}

// settled reports whether all calls have been answered once. A page that waits for that comes as a whole, and none of its
// parts pushes another one down.
export const settled = (...polls) => polls.every((poll) => poll.data || poll.problem);

// forgoes reports whether repeating a call is useless, because the caller lacks a role or the thing does not exist.
function forgoes(problem) {
  return problem !== null && [400, 401, 403, 404, 410].includes(problem.status);
}
