// A store is an object with listeners. Components that use it are drawn again when it changes.
import { useEffect, useState } from 'preact/hooks';

export function newStore(initial) {
  const listeners = new Set();
  const store = {
    value: initial,
    set(patch) {
      store.value = { ...store.value, ...patch };
      for (const listener of [...listeners]) listener(store.value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return store;
}

export function useStore(store) {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    setValue(store.value);
    return store.subscribe(setValue);
  }, [store]);
  return value;
}
