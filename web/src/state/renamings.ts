// Renamings of states and keys, which selection, places and tests follow.
import type * as T from "../api/types";
import { escapeStep } from "../forms/pointers";
import type { Positions } from "./store";

/** Return an id after a renaming. The id of a transition is its pointer, with the name of its state in it. */
export function idAfter(id: string, { kind, name, to }: T.RenamedName): string {
  if (kind !== "state") return id;
  if (id === name) return to;
  const [, top = "", own, ...rest] = id.split("/");
  const isInside = id.startsWith("/") && own === escapeStep(name);
  return isInside && /^(states|transitions)$/.test(top)
    ? ["", top, escapeStep(to), ...rest].join("/")
    : id;
}

const SCHEMA_KEY = /^\/context_schema\/properties\/([^/]+)$/;

export function renamingsOf(gestures: readonly T.OneGesture["gesture"][]): T.RenamedName[] {
  return gestures.flatMap((one): T.RenamedName[] => {
    if (one.do === "rename_state") return [{ kind: "state", name: one.id, to: one.to }];
    const key = one.do === "rename_key" ? SCHEMA_KEY.exec(one.pointer)?.[1] : undefined;
    if (one.do !== "rename_key" || key === undefined) return [];
    const name = key.replace(/~1/g, "/").replace(/~0/g, "~");
    return [{ kind: "key", name, to: one.to }];
  });
}

/** Return the renamings that lead from one version to another: those undone backwards, then the new ones. */
export function renamingsBetween(
  before: readonly T.RenamedName[],
  after: readonly T.RenamedName[],
): T.RenamedName[] {
  let same = 0;
  while (same < before.length && before[same] === after[same]) same += 1;
  const undone = before.slice(same).reverse();
  const back = undone.map(({ kind, name, to }) => ({ kind, name: to, to: name }));
  return [...back, ...after.slice(same)];
}

export function renamed(positions: Positions, renamings: readonly T.RenamedName[]): Positions {
  return new Map([...positions].map(([id, at]) => [renamings.reduce(idAfter, id), at]));
}
