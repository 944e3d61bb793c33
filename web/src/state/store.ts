// What the page shows: one store, with one owner of each fact.
import type * as T from "../api/types";
import type { Before } from "../canvas/changes";
import type { KeptDraft } from "./drafts";
import type { Menu } from "./menus";
import { observed } from "./observed";

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

/** A version to read, such as that of a stored conversation or of a commit. */
export interface OldVersion {
  /** Whose version it is, such as `the conversation guest-1`. */
  readonly of: string;
  /** The file that has another version now; null: it is gone. */
  readonly file: string | null;
}

export interface StudioState {
  readonly settings: T.StudioSettings | null;
  readonly listing: T.Listing | null;
  readonly path: string | null;
  readonly writable: boolean;
  readonly old: OldVersion | null;
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
  readonly menu: Menu | null;
  readonly cursor: number | null;
}

/** What is marked on the canvas: states and pointers of the talk, of tests, figures of a store, or changes. */
export interface Lit {
  readonly state: string | null;
  readonly edges: readonly string[];
  readonly covered: readonly string[] | null;
  readonly missed: readonly string[] | null;
  readonly figures: Readonly<Record<string, string>> | null;
  /** The version that the document is compared with. */
  readonly before: Before | null;
}

export const DARK: Lit = {
  state: null,
  edges: [],
  covered: null,
  missed: null,
  figures: null,
  before: null,
};
const isNarrow = () => matchMedia("(max-width: 60rem)").matches;

const store = observed<StudioState>({
  settings: null,
  listing: null,
  path: null,
  writable: true,
  old: null,
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
  menu: null,
  cursor: null,
});

export const getState = store.get;
export const useStudio = store.use;
export const change = (part: Partial<StudioState>): void => store.put({ ...getState(), ...part });

export const present = (from: StudioState = getState()): Version | null =>
  from.versions[from.at] ?? null;
export const isUnsaved = (from: StudioState = getState()): boolean => {
  const version = present(from);
  return version !== null && (version.text !== from.savedText || from.held.size > 0);
};

export function say(notice: string): void {
  change({ notice, problem: "" });
}

export function tell(error: unknown): void {
  change({ problem: error instanceof Error ? error.message : String(error) });
}

/** Do work, and tell what went wrong. Return true if it was done. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    tell(error);
    return false;
  }
}

/** The same, while the page says that it works. */
export async function busily(work: () => Promise<unknown>): Promise<boolean> {
  change({ busy: true, problem: "" });
  const isDone = await attempt(work);
  change({ busy: false });
  return isDone;
}

export const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((id, n) => id === other[n]);

export function select(ids: readonly string[]): void {
  if (!isSame(ids, getState().selected)) change({ selected: ids });
}

export function openPanel(panel: Panel): void {
  change({ panel, isPanelOpen: true });
}

export function light(part: Partial<Lit>): void {
  change({ lit: { ...getState().lit, ...part } });
}
