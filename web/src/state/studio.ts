// The one document of the page: its text, findings and positions, with one undo stack for all views.
import { useSyncExternalStore } from "preact/compat";
import { ServerProblem, api } from "../api/client";
import type * as T from "../api/types";
import { escapeStep } from "../forms/pointers";
import { type KeptDraft, dropDraft, findDraft, forget, keepDraft } from "./drafts";

/** Places by state. A map, because a state may be called `constructor` or `__proto__`. */
export type Positions = ReadonlyMap<string, T.CanvasPoint>;
export type View = "canvas" | "outline" | "text" | "diff";
export type Panel = "details" | "talk" | "findings" | "tests";

/** What undo goes back to. A move of a state changes `positions` alone. */
export interface Version {
  readonly text: string;
  readonly checked: T.CheckedText;
  readonly positions: Positions;
  readonly folded: readonly string[];
  /** All renamings since the file was opened, which its tests follow when it is saved. */
  readonly renamings: readonly T.RenamedName[];
  readonly label: string;
  /** True for a file that was opened, but not yet checked: its graph comes first. */
  readonly isUnchecked?: boolean;
}

export interface Conflict {
  readonly text: string | null;
  readonly sha256: string | null;
}

export interface StudioState {
  readonly settings: T.StudioSettings | null;
  readonly listing: T.Listing | null;
  readonly path: string | null;
  readonly writable: boolean;
  readonly base: string | null;
  readonly savedText: string;
  /** The renamings that the tests on disk have followed. */
  readonly savedRenamings: readonly T.RenamedName[];
  readonly versions: readonly Version[];
  readonly at: number;
  readonly view: View;
  readonly panel: Panel;
  readonly isPanelOpen: boolean;
  readonly selected: readonly string[];
  readonly busy: boolean;
  readonly checking: boolean;
  readonly notice: string;
  readonly problem: string;
  readonly conflict: Conflict | null;
  readonly draft: KeptDraft | null;
  readonly lit: Lit;
  readonly cursor: number | null;
}

/** What is marked on the canvas: states and pointers of the talk, of tests, or figures of a store. */
export interface Lit {
  readonly state: string | null;
  readonly edges: readonly string[];
  readonly covered: readonly string[] | null;
  readonly missed: readonly string[] | null;
  readonly figures: Readonly<Record<string, string>> | null;
}

const DARK: Lit = { state: null, edges: [], covered: null, missed: null, figures: null };
const MOST_VERSIONS = 300;
/** Characters of all kept versions. Older ones fall away, so that a file of 5 MB does not fill the memory. */
const MOST_CHARACTERS = 150_000_000;
const TYPING_PAUSE = 900;

const isNarrow = () => matchMedia("(max-width: 60rem)").matches;

let state: StudioState = {
  settings: null,
  listing: null,
  path: null,
  writable: true,
  base: null,
  savedText: "",
  savedRenamings: [],
  versions: [],
  at: 0,
  view: isNarrow() ? "outline" : "canvas",
  panel: "details",
  isPanelOpen: !isNarrow(),
  selected: [],
  busy: false,
  checking: false,
  notice: "",
  problem: "",
  conflict: null,
  draft: null,
  lit: DARK,
  cursor: null,
};
const listeners = new Set<() => void>();

export function getState(): StudioState {
  return state;
}

export function change(part: Partial<StudioState>): void {
  state = { ...state, ...part };
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useStudio<R>(pick: (state: StudioState) => R): R {
  return useSyncExternalStore(subscribe, () => pick(state));
}

export const present = (from: StudioState = state): Version | null =>
  from.versions[from.at] ?? null;
export const isUnsaved = (from: StudioState = state): boolean => {
  const version = present(from);
  return version !== null && version.text !== from.savedText;
};

export function say(notice: string): void {
  change({ notice, problem: "" });
}

export function tell(error: unknown): void {
  change({ problem: error instanceof Error ? error.message : String(error) });
}

// -- versions

function record(version: Version, merges = false): void {
  const kept = state.versions.slice(0, state.at + (merges ? 0 : 1));
  const versions = [...kept, version];
  let characters = versions.reduce((sum, one) => sum + one.text.length, 0);
  while (versions.length > 1 && (versions.length > MOST_VERSIONS || characters > MOST_CHARACTERS)) {
    characters -= versions.shift()!.text.length;
  }
  const selected = chosenIn(version, present());
  change({ versions, at: versions.length - 1, notice: version.label, selected });
  afterChange();
}

/** Return the selection as it is in a version: it follows renamings, and what is gone is in it no more. */
function chosenIn(version: Version, before: Version | null): readonly string[] {
  const steps = before ? renamingsBetween(before.renamings, version.renamings) : [];
  const { nodes, edges } = version.checked.graph;
  const known = new Set([...nodes, ...edges].map((one) => one.id));
  const followed = state.selected.map((id) => steps.reduce(idAfter, id));
  const kept = followed.filter((id) => known.has(id));
  return isSame(kept, state.selected) ? state.selected : kept;
}

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((id, n) => id === other[n]);

/** Return an id after a renaming. The id of a transition is its pointer, with the name of its state in it. */
function idAfter(id: string, { kind, name, to }: T.RenamedName): string {
  if (kind !== "state") return id;
  if (id === name) return to;
  const [, top = "", own, ...rest] = id.split("/");
  const isInside = id.startsWith("/") && own === escapeStep(name);
  return isInside && /^(states|transitions)$/.test(top)
    ? ["", top, escapeStep(to), ...rest].join("/")
    : id;
}

function afterChange(): void {
  const version = present();
  if (state.path === null || version === null) return;
  if (isUnsaved()) keepDraft(state.path, version.text, state.base, unsavedRenamings(version));
  else dropDraft(state.path);
}

export function goTo(at: number): void {
  const before = present();
  const target = state.versions[at];
  if (!target || at === state.at) return;
  const step = at < state.at ? `Undone: ${before?.label ?? ""}` : `Redone: ${target.label}`;
  change({ at, notice: step, problem: "", selected: chosenIn(target, before) });
  afterChange();
  if (before && before.positions !== target.positions) keepLayout(target);
  if (target.checked.graph.nodes.length === 0 || target.isUnchecked || isTypingStale(target))
    void checkNow();
}

const stale = new WeakSet<Version>();
const isTypingStale = (version: Version) => stale.has(version);

export const undo = () => goTo(state.at - 1);
export const redo = () => goTo(state.at + 1);

// -- typing

let lastTyped = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Take the text of the text view. Letters typed in a row are one step. */
export function typed(text: string): void {
  const now = present();
  if (!now || text === now.text) return;
  const merges = now.label === "Typing" && Date.now() - lastTyped < TYPING_PAUSE;
  lastTyped = Date.now();
  const version = { ...now, text, label: "Typing" };
  stale.add(version);
  record(version, merges && now.text !== state.savedText);
  clearTimeout(timer);
  timer = setTimeout(() => void checkNow(), 250);
}

/** Check the present text; the answer belongs to the version that was sent. */
export async function checkNow(): Promise<void> {
  const version = present();
  if (!version || state.path === null) return;
  change({ checking: true });
  try {
    const checked = await api.check({ path: state.path, text: version.text });
    const versions = state.versions.map((one) => {
      if (one.text !== version.text) return one;
      // A text that is no JSON keeps the last picture, which the canvas shows as such.
      const old = one.checked.graph;
      const graph = checked.is_json ? kept(old, checked.graph) : old;
      const value = checked.is_json ? checked.value : one.checked.value;
      return { ...one, checked: { ...checked, graph, value }, isUnchecked: false };
    });
    const now = versions[state.at] ?? version;
    change({ versions, selected: chosenIn(now, now) });
  } catch (error) {
    tell(error);
  } finally {
    change({ checking: false });
  }
}

/** Return a graph in which all that is as it was is the same object, so that the canvas need not draw it again. */
function kept(old: T.Graph, made: T.Graph): T.Graph {
  const known = new Map([...old.nodes, ...old.edges].map((one) => [one.id, one] as const));
  const same = <One extends T.GraphNode | T.GraphEdge>(one: One): One => {
    const before = known.get(one.id);
    return before && JSON.stringify(before) === JSON.stringify(one) ? (before as One) : one;
  };
  return { ...made, nodes: made.nodes.map(same), edges: made.edges.map(same) };
}

// -- gestures

let queue: Promise<unknown> = Promise.resolve();

/** Make gestures one after the other; each begins from the text that the one before left. */
export function gesture(
  label: string,
  gestures: readonly T.OneGesture["gesture"][],
  places: Positions = new Map(),
): Promise<T.Patched | null> {
  const made = queue.then(() => makeGesture(label, gestures, places));
  queue = made.catch(() => null);
  return made;
}

async function makeGesture(
  label: string,
  gestures: readonly T.OneGesture["gesture"][],
  places: Positions,
): Promise<T.Patched | null> {
  const now = present();
  const { path } = state;
  if (!now || path === null) return null;
  if (!now.checked.is_json) {
    change({ problem: "Mend the text first: it is not JSON.", view: "text" });
    return null;
  }
  change({ busy: true });
  try {
    const wrapped = gestures.map((one) => ({ gesture: one }));
    const patched = await api.gestures({ path, text: now.text, gestures: wrapped });
    if (state.path !== path) return null;
    // What was typed meanwhile stays: the gesture is made again, on the newer text.
    if (present()?.text !== now.text) return await makeGesture(label, gestures, places);
    const renamings = renamingsOf(gestures);
    const positions = renamed(new Map([...now.positions, ...places]), renamings);
    const moved = places.size > 0 || renamings.length > 0;
    const graph = kept(now.checked.graph, patched.checked.graph);
    record({
      text: patched.text,
      checked: { ...patched.checked, graph },
      positions: moved ? positions : now.positions,
      folded: now.folded,
      renamings: [...now.renamings, ...renamings],
      label,
    });
    if (moved) keepLayout(present()!);
    change({ problem: "" });
    return patched;
  } catch (error) {
    tell(error);
    return null;
  } finally {
    change({ busy: false });
  }
}

const SCHEMA_KEY = /^\/context_schema\/properties\/([^/]+)$/;

function renamingsOf(gestures: readonly T.OneGesture["gesture"][]): T.RenamedName[] {
  return gestures.flatMap((one): T.RenamedName[] => {
    if (one.do === "rename_state") return [{ kind: "state", name: one.id, to: one.to }];
    const key = one.do === "rename_key" ? SCHEMA_KEY.exec(one.pointer)?.[1] : undefined;
    if (one.do !== "rename_key" || key === undefined) return [];
    const name = key.replace(/~1/g, "/").replace(/~0/g, "~");
    return [{ kind: "key", name, to: one.to }];
  });
}

/** Return the renamings that lead from one version to another: those undone backwards, then the new ones. */
function renamingsBetween(
  before: readonly T.RenamedName[],
  after: readonly T.RenamedName[],
): T.RenamedName[] {
  let same = 0;
  while (same < before.length && before[same] === after[same]) same += 1;
  const undone = before.slice(same).reverse();
  const back = undone.map(({ kind, name, to }) => ({ kind, name: to, to: name }));
  return [...back, ...after.slice(same)];
}

const unsavedRenamings = (version: Version): T.RenamedName[] =>
  renamingsBetween(state.savedRenamings, version.renamings);

function renamed(positions: Positions, renamings: readonly T.RenamedName[]): Positions {
  return new Map([...positions].map(([id, at]) => [renamings.reduce(idAfter, id), at]));
}

export const setValue = (label: string, pointer: string, value: unknown) =>
  gesture(label, [value === undefined ? { do: "delete", pointer } : { do: "set", pointer, value }]);

// -- positions

/** Take positions that a person chose: one step, and no edit of the text. */
export function place(places: Positions, label: string): void {
  const now = present();
  if (!now) return;
  record({ ...now, positions: new Map([...now.positions, ...places]), label });
  keepLayout(present()!);
}

/** Take positions of states that had none. They are no step, and are kept with the next one. */
export function fill(places: Positions, replaces = false): void {
  const versions = state.versions.map((one) => ({
    ...one,
    positions: new Map(replaces ? [...one.positions, ...places] : [...places, ...one.positions]),
  }));
  change({ versions });
}

export function fold(name: string): void {
  const now = present();
  if (!now) return;
  const was = now.folded.includes(name);
  const folded = was ? now.folded.filter((one) => one !== name) : [...now.folded, name];
  record({ ...now, folded, label: was ? "Fold a sub-flow" : "Open a sub-flow" });
}

let layoutTimer: ReturnType<typeof setTimeout> | undefined;

function keepLayout(version: Version): void {
  const path = state.path;
  if (path === null || !state.writable) return;
  clearTimeout(layoutTimer);
  layoutTimer = setTimeout(() => {
    const known = new Set(version.checked.graph.nodes.map((node) => node.id));
    const named = [...version.positions].filter(([id]) => known.has(id));
    const rounded = named.map(([id, at]) => [id, { x: Math.round(at.x), y: Math.round(at.y) }]);
    const positions = Object.fromEntries(rounded) as Record<string, T.CanvasPoint>;
    api.saveLayout({ path, positions, folded: [...version.folded] }).catch(tell);
  }, 400);
}

// -- files

export async function openFile(path: string, view?: View): Promise<void> {
  change({ busy: true, problem: "" });
  try {
    const opened = await api.open(path);
    const version: Version = {
      text: opened.text,
      checked: opened.checked,
      positions: new Map(Object.entries(opened.layout.positions ?? {})),
      folded: opened.layout.folded ?? [],
      renamings: [],
      label: "Opened",
      isUnchecked: opened.checked.kind === "definition",
    };
    const draft = findDraft(path, opened.text);
    change({
      path,
      writable: opened.writable,
      base: opened.sha256,
      savedText: opened.text,
      savedRenamings: [],
      versions: [version],
      at: 0,
      selected: [],
      conflict: null,
      lit: DARK,
      draft,
      notice: `Opened ${path}`,
      cursor: null,
      ...(view ? { view } : {}),
    });
    if (!opened.checked.is_json) {
      const fault = opened.checked.findings[0];
      change({ view: "text", cursor: fault?.offset ?? 0 });
    }
    const address = new URL(location.href);
    address.searchParams.set("file", path);
    history.replaceState(null, "", address);
    if (version.isUnchecked) void checkNow();
  } catch (error) {
    tell(error);
  } finally {
    change({ busy: false });
  }
}

export function takeDraft(): void {
  const now = present();
  if (!now || state.draft === null) return;
  const { draft } = state;
  change({ draft: null });
  forget(draft);
  const renamings = [...state.savedRenamings, ...draft.renamings];
  record({ ...now, text: draft.text, renamings, label: "Draft taken up" });
  void checkNow();
}

export function discardDraft(): void {
  if (state.draft !== null) forget(state.draft);
  change({ draft: null });
}

export async function save(overwrite = false): Promise<void> {
  const version = present();
  const path = state.path;
  if (!version || path === null) return;
  change({ busy: true });
  try {
    const base = state.base;
    const renamings = unsavedRenamings(version);
    const saved = await api.save({ path, text: version.text, base, overwrite, renamings });
    const also = saved.tests.length > 0 ? `, and ${saved.tests.join(", ")}` : "";
    change({
      base: saved.sha256,
      savedText: version.text,
      savedRenamings: version.renamings,
      conflict: null,
      notice: `Saved ${path}${also}`,
      problem: "",
    });
    afterChange();
  } catch (error) {
    if (error instanceof ServerProblem && error.status === 409) {
      change({ conflict: (error.body["conflict"] as Conflict | undefined) ?? null });
      if (state.conflict === null) tell(error);
    } else {
      tell(error);
    }
  } finally {
    change({ busy: false });
  }
}

/** Take the text on disk as a step of its own, so that undo brings back what was typed. */
export function takeDisk(): void {
  const now = present();
  const found = state.conflict;
  if (!now || found === null || found.text === null) return;
  change({ savedText: found.text, base: found.sha256, conflict: null });
  const renamings = state.savedRenamings;
  record({ ...now, text: found.text, renamings, label: "Version from disk taken" });
  void checkNow();
}

export async function refreshFiles(): Promise<void> {
  try {
    change({ listing: await api.files() });
  } catch (error) {
    tell(error);
  }
}

export function select(ids: readonly string[]): void {
  if (!isSame(ids, state.selected)) change({ selected: ids });
}

export function show(view: View): void {
  change({ view });
}

export function openPanel(panel: Panel): void {
  change({ panel, isPanelOpen: true });
}

export function light(part: Partial<Lit>): void {
  change({ lit: { ...state.lit, ...part } });
}
