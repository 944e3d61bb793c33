// A value that the page observes: what reads it is drawn anew when it changes.
import { useSyncExternalStore } from "preact/compat";

export interface Observed<State> {
  readonly get: () => State;
  readonly put: (state: State) => void;
  readonly use: <R>(pick: (state: State) => R) => R;
}

export function observed<State>(first: State): Observed<State> {
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
  return {
    get: () => state,
    put,
    use: (pick) => useSyncExternalStore(subscribe, () => pick(state)),
  };
}
