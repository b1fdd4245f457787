import { useEffect, useRef, useState } from "preact/hooks";

/** A value that several components show. */
export interface Store<T> {
  get(): T;
  set(next: T | ((before: T) => T)): void;
  subscribe(listener: () => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      const after = typeof next === "function" ? (next as (before: T) => T)(value) : next;
      if (Object.is(after, value)) return;
      value = after;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Returns what `select` takes from the store, and renders again when that changes. */
export function useStore<T, S>(store: Store<T>, select: (value: T) => S): S {
  const [, render] = useState(0);
  const selected = select(store.get());
  const latest = useRef({ select, selected });
  latest.current = { select, selected };
  useEffect(() => {
    const update = () => {
      const { select, selected } = latest.current;
      if (!Object.is(select(store.get()), selected)) render((number) => number + 1);
    };
    update();
    return store.subscribe(update);
  }, [store]);
  return selected;
}
