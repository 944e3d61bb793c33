// What can be done with a state, a transition or a place: the same in the panel and in the context menu.
import type { GraphEdge, GraphNode } from "../api/types";
import { behind } from "../canvas/folding";
import type { Point } from "../canvas/shapes";
import {
  addState,
  askRepoint,
  connect,
  duplicate,
  insertState,
  paste,
  remove,
  rename,
  showInText,
  tidy,
} from "./actions";
import { setValue } from "./gestures";
import { edges, isEdge, isWorkflow, nodes } from "./machine";
import { askFor, confirmStep } from "./steps";
import { change, getState, openPanel, present, select } from "./store";
import { fold } from "./versions";

export type Action = readonly [label: string, run: () => unknown];

export interface Menu {
  readonly title: string;
  readonly x: number;
  readonly y: number;
  readonly actions: readonly Action[];
}

export function stateActions(node: GraphNode): Action[] {
  const { id } = node;
  const isFirst = node.initial || isWorkflow();
  const isFlow = node.kind === "subflow" && node.flow_exists;
  const isGroup = !isFlow && behind(present()!.checked.graph, id).size > 0;
  const isFolded = present()!.folded.includes(id);
  return [
    ["Add next state", () => addState(id)],
    ["Connect to…", () => connect(id)],
    ["Rename", () => rename(id)],
    ["Duplicate", () => duplicate([id])],
    ["Delete", () => remove([id])],
    ["Text", () => showInText(node.pointer)],
    ...some(!isFirst, ["Begin here", () => beginAt(id)]),
    ...some(isFlow, ["Fold or open", () => fold(id)]),
    ...some(isGroup, [isFolded ? "Unfold" : "Fold what follows", () => fold(id)]),
  ];
}

const some = (isWanted: boolean, ...actions: Action[]): Action[] => (isWanted ? actions : []);
const beginAt = (id: string) => setValue("Change the first state", "/initial_state", id);

export function edgeActions({ id, source, pointer }: GraphEdge): Action[] {
  return [
    ["Lead to…", () => askRepoint(id)],
    ["Insert a state", () => insertState(id)],
    ["Delete", () => remove([id])],
    ["Text", () => showInText(pointer)],
    ...some(source !== null, ["Its state", () => select([source!])]),
  ];
}

export const severalActions = (ids: readonly string[]): Action[] => [
  ["Duplicate", () => duplicate(ids)],
  ["Delete", () => remove(ids)],
];

type Click = Pick<MouseEvent, "clientX" | "clientY" | "preventDefault">;

/** Open the menu of a state, of a transition, of what is selected, or of an empty place of the canvas. */
export function openMenu(id: string | null, event: Click, place?: Point): void {
  event.preventDefault();
  const { selected } = getState();
  const isOfMany = id !== null && selected.length > 1 && selected.includes(id);
  if (id !== null && !isOfMany) select([id]);
  const node = nodes().find((one) => one.id === id && one.kind !== "unknown");
  const edge = edges().find((one) => one.id === id);
  const details: Action = ["Details", () => openPanel("details")];
  let title = "Canvas";
  let actions: Action[] = [
    ["Add state", () => addState(null, place)],
    ...some(
      !isWorkflow(),
      ["Ask for…", () => askFor(place)],
      ["Confirm…", () => confirmStep(place)],
    ),
    ["Paste", () => paste()],
    ["Tidy up", tidy],
  ];
  if (isOfMany) {
    title = `${selected.length} selected`;
    actions = [...severalActions(selected), ...some(!selected.some(isEdge), ["Tidy up", tidy])];
  } else if (node || edge) {
    title = node ? `State ${node.id}` : "Transition";
    actions = [details, ...(node ? stateActions(node) : edgeActions(edge!))];
  }
  change({ menu: { title, x: event.clientX, y: event.clientY, actions } });
}
