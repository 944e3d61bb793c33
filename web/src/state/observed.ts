// A value that the page observes: what reads it is drawn anew when it changes.
import { useSyncExternalStore } from "preact/compat";
import { useEffect } from "preact/hooks";

/** Ask for something when its inputs change. An answer counts only while nothing newer was asked. */
export function useLatest(inputs: unknown[], ask: (isWanted: () => boolean) => unknown): void {
  useEffect(() => {
    let isWanted = true;
    void ask(() => isWanted);
    return () => {
      isWanted = false;
    };
  }, inputs);
}

export function observed<State>(first: State) {
  let state = first;
  const listeners = new Set<() => void>();
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  const put = (next: State) => {
    state = next;
    for (const listener of listeners) listener();
  };
  const use = <R>(pick: (state: State) => R): R =>
    useSyncExternalStore(subscribe, () => pick(state));
  return { get: () => state, put, use };
}
