// What the page shows: one store, with one owner of each fact.
import { useSyncExternalStore } from "preact/compat";
import type * as T from "../api/types";
import type { KeptDraft } from "./drafts";

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

/** The text of a field that the document does not have yet. It is plain data, so that drafts keep it. */
export interface Held {
  /** The step of undo that it becomes. */
  readonly label: string;
  readonly pointer: string;
  readonly text: string;
  /** An expression is read by the server. */
  readonly form: "value" | "expression";
  /** The value that the text means; none: the member goes. */
  readonly value?: unknown;
  /** Why the text means no value; empty if it does. */
  readonly fault: string;
  /** True once the fault was told, which waits until the field is left. */
  readonly isTold?: boolean;
}

/** The file as others left it on disk. */
export interface Conflict {
  /** None: it is gone. */
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
  /** The ids that are selected. Views propose a selection; this one counts. */
  readonly selected: readonly string[];
  readonly held: ReadonlyMap<string, Held>;
  readonly busy: boolean;
  readonly notice: string;
  readonly problem: string;
  /** The version on disk that is shown beside the own one. */
  readonly conflict: Conflict | null;
  /** The version on disk that was noticed while there are changes that are not saved. */
  readonly disk: Conflict | null;
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

export const DARK: Lit = { state: null, edges: [], covered: null, missed: null, figures: null };
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
  held: new Map(),
  busy: false,
  notice: "",
  problem: "",
  conflict: null,
  disk: null,
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
  return version !== null && (version.text !== from.savedText || from.held.size > 0);
};

export function say(notice: string): void {
  change({ notice, problem: "" });
}

export function tell(error: unknown): void {
  change({ problem: error instanceof Error ? error.message : String(error) });
}

export const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((id, n) => id === other[n]);

export function select(ids: readonly string[]): void {
  if (!isSame(ids, state.selected)) change({ selected: ids });
}

export function openPanel(panel: Panel): void {
  change({ panel, isPanelOpen: true });
}

export function light(part: Partial<Lit>): void {
  change({ lit: { ...state.lit, ...part } });
}
