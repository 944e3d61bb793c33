// What the page shows: one store, with one owner of each fact.
import type * as T from "../api/types";
import type { Before } from "../canvas/changes";
import type { KeptDraft } from "./drafts";
import type { Menu } from "./menus";
import { observed } from "./observed";

/** Places by state. A map, because a state may be called `constructor` or `__proto__`. */
export type Positions = ReadonlyMap<string, T.CanvasPoint>;
export type Translations = Readonly<Record<string, T.Translation>>;
export type View = "canvas" | "outline" | "text" | "texts" | "diff";
export type Panel = "details" | "talk" | "findings" | "tests";

/** What undo goes back to. A move of a state changes `positions` alone. */
export interface Version {
  readonly text: string;
  readonly checked: T.CheckedText;
  readonly positions: Positions;
  readonly folded: readonly string[];
  /** All renamings since the file was opened, which its tests follow when it is saved. */
  readonly renamings: readonly T.RenamedName[];
  /** All texts that were translated since the file was opened, by their place: `/texts/TAG/POINTER`. */
  readonly translations: Translations;
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
  /** An expression is read by the server. A translation is no part of the text. */
  readonly form: "value" | "expression" | "translation";
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

/** What is marked on the canvas: states and pointers of the talk, of tests, figures of a store, or changes. */
export const DARK = {
  state: null as string | null,
  edges: [] as readonly string[],
  covered: null as readonly string[] | null,
  missed: null as readonly string[] | null,
  figures: null as Readonly<Record<string, string>> | null,
  /** The version that the document is compared with. */
  before: null as Before | null,
};
export type Lit = Readonly<typeof DARK>;

/** What is so when a file is opened or left. */
export const FRESH = {
  old: null as OldVersion | null,
  /** The renamings that the tests on disk have followed. */
  savedRenamings: [] as readonly T.RenamedName[],
  savedTranslations: {} as Translations,
  /** What was there before the translations of all versions. */
  originals: {} as Translations,
  /** The texts of a definition with further languages. */
  texts: null as T.Texts | null,
  /** The language that text fields are shown in; "": the definition's own. */
  language: "",
  versions: [] as readonly Version[],
  at: 0,
  /** The ids that are selected. Views propose a selection; this one counts. */
  selected: [] as readonly string[],
  held: new Map() as ReadonlyMap<string, Held>,
  /** The version on disk that is shown beside the own one. */
  conflict: null as Conflict | null,
  /** The version on disk that was noticed while there are changes that are not saved. */
  disk: null as Conflict | null,
  draft: null as KeptDraft | null,
  lit: DARK as Lit,
  cursor: null as number | null,
};
export const isNarrow = () => matchMedia("(max-width: 60rem)").matches;

const FIRST = {
  ...FRESH,
  settings: null as T.StudioSettings | null,
  listing: null as T.Listing | null,
  path: null as string | null,
  writable: true,
  base: null as string | null,
  savedText: "",
  view: (isNarrow() ? "outline" : "canvas") as View,
  panel: "details" as Panel,
  isPanelOpen: !isNarrow(),
  busy: false,
  notice: "",
  problem: "",
  menu: null as Menu | null,
};
export type StudioState = Readonly<typeof FIRST>;

const store = observed<StudioState>(FIRST);

export const getState = store.get;
export const useStudio = store.use;
export const change = (part: Partial<StudioState>): void => store.put({ ...getState(), ...part });

export const present = (from: StudioState = getState()): Version | null =>
  from.versions[from.at] ?? null;
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

export function openDetails(...ids: readonly string[]): void {
  select(ids);
  openPanel("details");
}

export function light(part: Partial<Lit>): void {
  change({ lit: { ...getState().lit, ...part } });
}
