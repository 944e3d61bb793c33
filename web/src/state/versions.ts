// The steps of undo: each is a whole version of the document, and places of its states.
import { api } from "../api/client";
import type * as T from "../api/types";
import { dropDraft, keepDraft } from "./drafts";
import { idAfter, renamingsBetween } from "./renamings";
import { type Positions, type Version, change, getState, isSame, present, tell } from "./store";
import { isUnsaved, unsavedTranslations } from "./unsaved";

const MOST_VERSIONS = 300;
/** Characters of all kept versions. Older ones fall away, so that a file of 5 MB does not fill the memory. */
const MOST_CHARACTERS = 150_000_000;
const TYPING_PAUSE = 900;

export function record(version: Version, merges = false): void {
  const kept = getState().versions.slice(0, getState().at + (merges ? 0 : 1));
  const versions = [...kept, version];
  let characters = versions.reduce((sum, one) => sum + one.text.length, 0);
  while (versions.length > 1 && (versions.length > MOST_VERSIONS || characters > MOST_CHARACTERS)) {
    characters -= versions.shift()!.text.length;
  }
  const selected = chosenIn(version, present());
  change({ versions, at: versions.length - 1, notice: version.label, selected });
  keepNow();
}

/** Return the selection as it is in a version: it follows renamings, and what is gone is in it no more. */
function chosenIn(version: Version, before: Version | null): readonly string[] {
  const steps = before ? renamingsBetween(before.renamings, version.renamings) : [];
  const { nodes, edges } = version.checked.graph;
  const known = new Set([...nodes, ...edges].map((one) => one.id));
  const followed = getState().selected.map((id) => steps.reduce(idAfter, id));
  const kept = followed.filter((id) => known.has(id));
  return isSame(kept, getState().selected) ? getState().selected : kept;
}

/** Keep a draft of what is not saved, or drop the one that is not needed any more. */
export function keepNow(): void {
  clearTimeout(draftTimer);
  const version = present();
  const { path, base, held, old } = getState();
  if (path === null || version === null || old !== null) return;
  const renamings = unsavedRenamings(version);
  const translations = unsavedTranslations(version);
  const { text } = version;
  if (isUnsaved()) keepDraft(path, { text, base, renamings, translations, held: [...held] });
  else dropDraft(path);
}

let draftTimer: ReturnType<typeof setTimeout> | undefined;

/** Keep a draft soon: a large text is not written for every letter. */
export function keepSoon(): void {
  clearTimeout(draftTimer);
  draftTimer = setTimeout(keepNow, 200);
}

/** Return the renamings that the tests on disk have not followed. */
export const unsavedRenamings = (version: Version): T.RenamedName[] =>
  renamingsBetween(getState().savedRenamings, version.renamings);

export function goTo(at: number): void {
  const before = present();
  const target = getState().versions[at];
  if (!target || at === getState().at) return;
  const step = at < getState().at ? `Undone: ${before?.label ?? ""}` : `Redone: ${target.label}`;
  change({ at, notice: step, problem: "", selected: chosenIn(target, before) });
  keepNow();
  const isPlaced = before?.positions === target.positions && before.folded === target.folded;
  if (before && !isPlaced) keepLayout(target);
  if (target.checked.graph.nodes.length === 0 || target.isUnchecked || stale.has(target))
    void checkNow();
}

const stale = new WeakSet<Version>();

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
  record(version, merges && now.text !== getState().savedText);
  clearTimeout(timer);
  timer = setTimeout(() => void checkNow(), 250);
}

/** Check the present text; the answer belongs to the version that was sent. */
export async function checkNow(): Promise<void> {
  const version = present();
  const { path } = getState();
  if (!version || path === null) return;
  try {
    const { text, translations } = version;
    const checked = await api.check({ path, text, translations: unsavedTranslations(version) });
    const versions = getState().versions.map((one) => {
      if (one.text !== text || one.translations !== translations) return one;
      // A text that is no JSON keeps the last picture, which the canvas shows as such.
      const old = one.checked.graph;
      const graph = checked.is_json ? kept(old, checked.graph) : old;
      const value = checked.is_json ? checked.value : one.checked.value;
      return { ...one, checked: { ...checked, graph, value }, isUnchecked: false };
    });
    const now = versions[getState().at] ?? version;
    change({ versions, selected: chosenIn(now, now) });
  } catch (error) {
    tell(error);
  }
}

/** Return a graph in which all that is as it was is the same object, so that the canvas need not draw it again. */
export function kept(old: T.Graph, made: T.Graph): T.Graph {
  const known = new Map([...old.nodes, ...old.edges].map((one) => [one.id, one] as const));
  const same = <One extends T.GraphNode | T.GraphEdge>(one: One): One => {
    const before = known.get(one.id);
    return before && JSON.stringify(before) === JSON.stringify(one) ? (before as One) : one;
  };
  return { ...made, nodes: made.nodes.map(same), edges: made.edges.map(same) };
}

// -- positions

/** Take positions that a person chose: one step, and no edit of the text. */
export function place(places: Positions, label: string): void {
  arrange(label, ({ positions }) => ({ positions: new Map([...positions, ...places]) }));
}

function arrange(label: string, partOf: (now: Version) => Partial<Version>): void {
  const now = present();
  if (!now) return;
  record({ ...now, ...partOf(now), label });
  keepLayout(present()!);
}

/** Take positions of states that had none. They are no step, and are kept with the next one. */
export function fill(places: Positions, replaces = false): void {
  const versions = getState().versions.map((one) => ({
    ...one,
    positions: new Map(replaces ? [...one.positions, ...places] : [...places, ...one.positions]),
  }));
  change({ versions });
}

export function fold(name: string): void {
  arrange(`Fold or unfold ${name}`, ({ folded }) => {
    const others = folded.filter((one) => one !== name);
    return { folded: others.length < folded.length ? others : [...folded, name] };
  });
}

let layoutTimer: ReturnType<typeof setTimeout> | undefined;

export function keepLayout(version: Version): void {
  const path = getState().path;
  if (path === null || !getState().writable) return;
  clearTimeout(layoutTimer);
  layoutTimer = setTimeout(() => {
    const known = new Set(version.checked.graph.nodes.map((node) => node.id));
    const named = [...version.positions].filter(([id]) => known.has(id));
    const rounded = named.map(([id, at]) => [id, { x: Math.round(at.x), y: Math.round(at.y) }]);
    const positions = Object.fromEntries(rounded) as Record<string, T.CanvasPoint>;
    api.saveLayout({ path, positions, folded: [...version.folded] }).catch(tell);
  }, 400);
}
