// What a person does with states and transitions, the same from canvas, outline and keyboard.
import { foldedGraph } from "../canvas/folding";
import { directionOf, freePlace, layOut, takeLayout } from "../canvas/layout";
import { type LaidOut, type Point, boundsOf, movedBy } from "../canvas/shapes";
import { stepsOf } from "../forms/pointers";
import { askChoice, askText, askYes } from "../views/dialogs";
import { type Gesture, gesture } from "./gestures";
import { TARGETS, edges, freeName, idOf, isEdge, isWorkflow, nodes, placed } from "./machine";
import { busily, change, getState, openPanel, present, say, select } from "./store";
import { fold, place } from "./versions";

/** Return a new state. A title that is no id stays as its description. */
function newValue(title: string): Record<string, unknown> {
  if (isWorkflow()) return { objective: "" };
  const about = idOf(title) === title ? {} : { description: title };
  return { ...about, purpose: "", transitions: [] };
}

/** Ask for the name of a new state, and make it by gestures. It comes behind another one. */
async function make(
  how: "Add" | "Insert",
  after: string | null,
  gesturesOf: (id: string, value: Record<string, unknown>) => Gesture[],
  at: Point = freePlace(after),
): Promise<void> {
  const title = await askText(`${how} a state`, "Name", freeName("new_state"), how);
  if (title === null) return;
  const id = idOf(title);
  const places = new Map([[id, at]]);
  if (await gesture(`${how} state ${id}`, gesturesOf(id, newValue(title)), places)) reveal(id);
}

/** Add a state; with a neighbour, behind it and with a transition from it. */
export const addState = (after: string | null, at?: Point) =>
  make("Add", after, (id, value) => placed(id, value, after), at);

export async function connect(source: string | null, target?: string): Promise<void> {
  const from = source === null ? "everywhere" : source;
  const aim = target ?? (await askState(`Connect ${from}`, "To which state?"));
  if (aim === null) return;
  const known = new Set(edges().map((one) => one.id));
  const label = isWorkflow() ? branchName(source) : null;
  const made = await gesture(`Connect ${from} to ${aim}`, [
    { do: "add_transition", source, target: aim, value: {}, label },
  ]);
  const added = made?.checked.graph.edges.find(
    (one) => !known.has(one.id) && one.source === source,
  );
  if (added) reveal(added.id);
}

/** Return the name of a further branch of a workflow's state; null for its only way on. */
function branchName(source: string | null): string | null {
  const there = edges().filter((one) => one.source === source);
  return there.length === 0 ? null : `branch_${there.length + 1}`;
}

const stateOptions = () =>
  nodes().map((one) => ({ value: one.id, label: one.id, hint: one.purpose }));

export const askState = (title: string, label: string) => askChoice(title, label, stateOptions());

export async function repoint(id: string, ends: { source?: string; target?: string }) {
  const edge = edges().find((one) => one.id === id);
  if (!edge) return;
  await gesture("Re-point a transition", [{ do: "repoint", pointer: edge.pointer, ...ends }]);
}

export async function askRepoint(id: string): Promise<void> {
  const target = await askState("Re-point the transition", "To which state?");
  if (target !== null) await repoint(id, { target });
}

export async function insertState(id: string): Promise<void> {
  const edge = edges().find((one) => one.id === id);
  if (!edge) return;
  const { pointer, source } = edge;
  await make("Insert", source, (name, value) => [{ do: "insert_state", pointer, id: name, value }]);
}

export async function rename(id: string, to?: string): Promise<void> {
  const wanted = to ?? (await askText("Rename the state", "New name", id, "Rename"));
  if (wanted === null || wanted === id) return;
  const gestures: Gesture[] = [{ do: "rename_state", id, to: wanted }];
  await gesture(`Rename ${id} to ${wanted}`, gestures);
}

export async function remove(ids: readonly string[]): Promise<void> {
  const states = ids.filter((id) => !isEdge(id) && nodes().some((one) => one.id === id));
  const ways = edges().filter((one) => ids.includes(one.id));
  const lost = ways.filter((one) => one.source === null || !states.includes(one.source));
  // Later elements of a list go first, so that the pointers before them stay true.
  const byPlace = [...lost].sort((a, b) => comparePointers(b.pointer, a.pointer));
  const gestures: Gesture[] = [
    ...byPlace.map((one): Gesture => ({ do: "delete_transition", pointer: one.pointer })),
    ...states.map((id): Gesture => ({ do: "delete_state", id })),
  ];
  if (gestures.length === 0) return;
  const what = states.length === 1 && gestures.length === 1 ? `state ${states[0]}` : "";
  const label = `Delete ${what || `${gestures.length} of the machine`}`;
  const one = lost.length === 1 && states.length === 0 ? "Delete a transition" : label;
  if (await gesture(one, gestures)) select([]);
}

const comparePointers = (a: string, b: string): number =>
  a.localeCompare(b, "en", { numeric: true });

export async function duplicate(ids: readonly string[]): Promise<void> {
  const states = ids.filter((id) => !isEdge(id));
  const places = new Map<string, Point>();
  const taken: string[] = [];
  const gestures = states.map((id): Gesture => {
    const to = freeName(`${id.replace(/_\d+$/, "")}_2`, taken);
    taken.push(to);
    places.set(to, freePlace(id));
    return { do: "duplicate_state", id, to };
  });
  if (gestures.length === 0) return;
  if (await gesture("Duplicate", gestures, places)) select(taken);
}

type Copied = Readonly<Record<"llmFsmStates", Record<string, unknown>>>;

const statesOf = (value: unknown): Record<string, unknown> => {
  const found = (value as { states?: unknown } | null)?.states;
  if (Array.isArray(found)) {
    return Object.fromEntries(found.map((one) => [(one as { name: string }).name, one]));
  }
  return (found as Record<string, unknown> | undefined) ?? {};
};

let copied: Copied | null = null;

/** Copy states, for this page and for others: they go to the clipboard as JSON, too. */
export function copy(ids: readonly string[]): void {
  const all = statesOf(present()?.checked.value);
  const chosen = ids.filter((id) => Object.hasOwn(all, id)).map((id) => [id, all[id]] as const);
  if (chosen.length === 0) return;
  copied = { llmFsmStates: Object.fromEntries(chosen) };
  navigator.clipboard?.writeText(JSON.stringify(copied, null, 2)).catch(() => undefined);
  say(chosen.length === 1 ? "1 state copied" : `${chosen.length} states copied`);
}

export async function paste(text?: string): Promise<void> {
  const found = readCopied(text) ?? copied;
  if (!found) {
    say("Nothing to paste: copy states first.");
    return;
  }
  const names = new Map<string, string>();
  for (const id of Object.keys(found.llmFsmStates)) {
    names.set(id, freeName(id, [...names.values()]));
  }
  const places = new Map<string, Point>();
  const gestures = Object.entries(found.llmFsmStates).map(([id, value]): Gesture => {
    const name = names.get(id)!;
    places.set(name, freePlace(nodes().some((one) => one.id === id) ? id : null));
    const body = retargeted(value, names) as Record<string, unknown>;
    delete body["id"];
    return { do: "add_state", id: name, value: body };
  });
  if (await gesture("Paste", gestures, places)) select([...names.values()]);
}

function readCopied(text: string | undefined): Copied | null {
  try {
    const found = JSON.parse(text ?? "") as Partial<Copied> | null;
    return found?.llmFsmStates ? (found as Copied) : null;
  } catch {
    return null;
  }
}

/** Let the ways between copied states lead to the copies. */
function retargeted(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((one) => retargeted(one, names));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => {
    if (TARGETS.includes(key) && typeof inner === "string") return [key, names.get(inner) ?? inner];
    return [key, retargeted(inner, names)];
  });
  return Object.fromEntries(entries);
}

/** Lay out the whole machine, for its first picture. `early` takes the beginning of a large one. */
export async function firstLayout(early?: (made: LaidOut) => void): Promise<LaidOut> {
  const { path } = getState();
  const direction = directionOf(edges(), present()?.positions ?? new Map());
  const made = await layOut(nodes(), edges(), early, direction);
  takeLayout(made, path);
  return made;
}

const shownGraph = () => foldedGraph(present()!.checked.graph, present()!.folded);

/** Lay out all states that are shown, or those that are selected around their own middle. One step. */
export async function tidy(): Promise<void> {
  const { graph } = shownGraph();
  const chosen = graph.nodes.filter((one) => getState().selected.includes(one.id));
  const some = chosen.length > 1 ? chosen : graph.nodes;
  await busily(async () => {
    const made = await layOut(some, graph.edges);
    if (some.length === graph.nodes.length) {
      takeLayout(made, getState().path);
      place(made.positions, "Tidy up");
      return;
    }
    const old = present()?.positions;
    const { left, top } = boundsOf(some.flatMap((one) => old?.get(one.id) ?? []));
    const shifted = [...made.positions].map(([id, at]) => [id, movedBy(at, left, top)] as const);
    place(new Map(shifted), "Tidy up the selection");
  });
}

/** Ask for a state or a transition to go to. */
export async function find(): Promise<void> {
  const ways = edges().map((one) => {
    const label = `${one.source ?? "everywhere"} → ${one.target}`;
    return { value: one.id, label, hint: `${one.label} ${one.words}` };
  });
  const chosen = await askChoice("Find", "State, transition or words", [
    ...stateOptions(),
    ...ways,
  ]);
  if (chosen !== null) reveal(chosen);
}

let revealer: ((id: string) => void) | null = null;
let waiting: string | null = null;

/** The canvas brings what is revealed into its middle, also what was asked for before it came. */
export function onReveal(listener: ((id: string) => void) | null): void {
  revealer = listener;
  if (listener && waiting !== null) listener(waiting);
  waiting = null;
}

/** Move the canvas to a state or a transition that is not in view. */
export function bringIntoView(id: string): void {
  if (revealer) revealer(shownGraph().boxes.get(id) ?? id);
  else if (getState().view === "canvas") waiting = id;
}

export function reveal(id: string): void {
  select([id]);
  if (getState().view === "text") {
    const pointer = [...nodes(), ...edges()].find((one) => one.id === id)?.pointer;
    if (pointer !== undefined) showInText(pointer);
    return;
  }
  if (getState().view === "diff") change({ view: "canvas" });
  const state = edges().find((one) => one.id === id)?.source ?? id;
  const boxOf = () => shownGraph().boxes.get(state);
  for (let box = boxOf(); box !== undefined; box = boxOf()) fold(box);
  bringIntoView(id);
  if (getState().isPanelOpen) openPanel("details");
}

/** Open the text at a pointer. */
export function showInText(pointer: string): void {
  const text = present()?.text ?? "";
  let at = 0;
  for (const name of stepsOf(pointer)) {
    if (/^\d+$/.test(name)) continue;
    const found = text.indexOf(`${JSON.stringify(name)}:`, at);
    if (found >= 0) at = found;
  }
  change({ view: "text", cursor: at });
}

export const leaveUnsaved = (): Promise<boolean> =>
  askYes("Leave this file?", "It has changes that are not saved. A draft is kept.", "Leave");
