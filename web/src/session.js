// The session: the caller, the namespace, and whether the node still accepts the caller.
import { get, Problem, setCaller } from './api.js';
import { learnDate } from './clock.js';
import { newStore, useStore } from './store.js';

const place = 'belfry-key';

export const session = newStore({
  state: 'starting', // starting, in, out, unreachable, refused
  reason: null, // the Problem that ended or prevented the session
  caller: null, // the answer to GET /v1/whoami
  namespace: '',
  namespaces: [],
  expired: false,
});

export const useSession = () => useStore(session);

function storedKey() {
  try {
    return sessionStorage.getItem(place) || '';
  } catch {
    return '';
  }
}

function storeKey(key) {
  try {
    if (key) sessionStorage.setItem(place, key);
    else sessionStorage.removeItem(place);
  } catch {
    // Without storage the key lasts as long as the page.
  }
  setCaller({ key });
}

// begin signs in with the key of this tab, or without one, where the cluster asks for none.
export async function begin(namespace) {
  setCaller({ key: storedKey(), refused: expire, reached: (response) => learnDate(response.headers.get('date')) });
  await enter(storedKey(), namespace);
}

async function enter(key, namespace) {
  try {
    await admit(key, namespace);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    reject(key, problem);
  }
}

// admit begins the session of a key. It asks for the caller and the namespaces at once.
async function admit(key, namespace) {
  const [caller, listed] = await Promise.all([get('/v1/whoami', {}, { key, signIn: true }), namespacesOf(key)]);
  storeKey(key);
  const names = listed || [caller.namespace];
  const chosen = namespace && names.includes(namespace) ? namespace : caller.namespace;
  setCaller({ namespace: chosen });
  session.set({ state: 'in', reason: null, caller, namespaces: names, namespace: chosen, expired: false });
}

// namespacesOf lists the namespaces that a key may look at. For a key without a role there is none to choose from, and
// it returns null.
async function namespacesOf(key) {
  try {
    const { namespaces } = await get('/v1/namespaces', {}, { key, signIn: true });
    return namespaces.map((n) => n.name);
  } catch {
    return null;
  }
}

function reject(key, problem) {
  if (problem.status === 401) {
    if (key) storeKey('');
    session.set({ state: 'out', reason: key ? problem : null, caller: null, expired: false });
    return;
  }
  session.set({ state: problem.status === 0 || problem.status >= 500 ? 'unreachable' : 'refused', reason: problem });
}

// signIn tries a key, and returns the problem if it is refused.
export async function signIn(key, namespace) {
  try {
    await admit(key, namespace);
    return null;
  } catch (problem) {
    if (problem instanceof Problem) return problem;
    throw problem;
  }
}

export function signOut() {
  storeKey('');
  session.set({ state: 'out', reason: null, caller: null, expired: false });
}

// expire ends the session because the node refused the key. The address stays, so that the page comes back after the
// next sign-in.
function expire(problem) {
  if (session.value.state !== 'in') return;
  storeKey('');
  session.set({ state: 'out', reason: problem, caller: null, expired: true });
}

export function chooseNamespace(namespace) {
  setCaller({ namespace });
  session.set({ namespace });
}

const includes = (role, needed) => role === needed || role === 'admin' || needed === 'read';

// can reports whether the caller's grants have a role in the namespace that is shown, for some queues at least.
export function can(role, namespace = session.value.namespace) {
  const grants = session.value.caller?.grants || [];
  return grants.some((g) => includes(g.role, role) && (g.namespace === '*' || g.namespace === namespace));
}

// canCluster reports whether the caller has a role for all namespaces.
export function canCluster(role) {
  const grants = session.value.caller?.grants || [];
  return grants.some((g) => includes(g.role, role) && g.namespace === '*');
}

// canSomewhere reports whether the caller has a role in any namespace.
export function canSomewhere(role) {
  return (session.value.caller?.grants || []).some((g) => includes(g.role, role));
}
