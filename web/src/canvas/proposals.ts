// What React Flow proposes, and what becomes of it: a selection, and places.
import type { EdgeChange, NodeChange } from "@xyflow/react";
import type { GraphEdge, GraphNode } from "../api/types";
import { edges } from "../state/machine";
import { type Positions, getState, present, select } from "../state/store";
import { place } from "../state/versions";
import { EVERYWHERE, freePlace } from "./layout";
import type { Shown } from "./parts";
import type { Point } from "./shapes";

/**
 * Take what React Flow proposes to select, for clicks, keys and boxes. The store alone has the selection:
 * React Flow draws it and proposes changes, but never reports what it draws.
 */
export function pick(changes: readonly (NodeChange<Shown> | EdgeChange)[]): void {
  const proposed = changes.flatMap((one) =>
    one.type === "select" && one.id !== EVERYWHERE ? [one] : [],
  );
  if (proposed.length === 0) return;
  // A transition from everywhere is no line of React Flow, which so never proposes to leave it.
  const free = new Set(edges().flatMap((one) => (one.source === null ? [one.id] : [])));
  const chosen = new Set(getState().selected.filter((id) => !free.has(id)));
  for (const one of proposed) {
    if (one.selected) chosen.add(one.id);
    else chosen.delete(one.id);
  }
  select([...chosen]);
}

export function moved(places: Positions): void {
  const now = present()?.positions;
  const changed = [...places]
    .filter(([id]) => id !== EVERYWHERE)
    .map(([id, at]) => [id, { x: Math.round(at.x), y: Math.round(at.y) }] as const)
    .filter(([id, at]) => now?.get(id)?.x !== at.x || now?.get(id)?.y !== at.y);
  if (changed.length === 0) return;
  const what = changed.length === 1 ? changed[0]![0] : `${changed.length} states`;
  place(new Map(changed), `Move ${what}`);
}

/** Return places for states that came without one, such as from the text: behind what leads to them. */
export function besides(
  lost: readonly GraphNode[],
  edges: readonly GraphEdge[],
  known: Positions,
): Positions {
  const taken = new Map(known);
  const made = new Map<string, Point>();
  for (const one of lost) {
    const way = edges.find(({ source, target }) => target === one.id && taken.has(source ?? ""));
    const at = freePlace(way?.source ?? null, taken);
    taken.set(one.id, at);
    made.set(one.id, at);
  }
  return made;
}
