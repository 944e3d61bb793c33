// Unsaved texts in local storage. They survive a crash of the page and of the server.
import type { RenamedName } from "../api/types";
import type { Held, Translations } from "./store";

const PLACE = "llm-fsm-draft:";
const WINDOW_PLACE = "llm-fsm-window";

interface Unsaved {
  readonly text: string;
  readonly base: string | null;
  /** The renamings since the last save. */
  readonly renamings: readonly RenamedName[];
  readonly translations: Translations;
  /** What was in fields. */
  readonly held: readonly (readonly [string, Held])[];
}

export interface KeptDraft extends Unsaved {
  readonly key: string;
  readonly at: number;
}

/** Each window has a draft of its own, so that two windows on one file do not take each other's. */
function windowName(): string {
  const known = sessionStorage.getItem(WINDOW_PLACE);
  if (known !== null) return known;
  const made = Math.random().toString(36).slice(2);
  sessionStorage.setItem(WINDOW_PLACE, made);
  return made;
}

export const isEmpty = (translations: Translations): boolean =>
  Object.keys(translations).length === 0;

const placeOf = (path: string): string => `${PLACE}${JSON.stringify(path)}:`;

export function keepDraft(path: string, unsaved: Unsaved): void {
  try {
    const draft = JSON.stringify({ ...unsaved, at: Date.now() });
    localStorage.setItem(placeOf(path) + windowName(), draft);
  } catch {
    // The storage is full or forbidden: the page still asks before it is left.
  }
}

export function dropDraft(path: string): void {
  try {
    localStorage.removeItem(placeOf(path) + windowName());
  } catch {
    // Nothing was kept.
  }
}

export function forget(draft: KeptDraft): void {
  localStorage.removeItem(draft.key);
}

function read(key: string): KeptDraft | null {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? "") as Partial<KeptDraft>;
    // Drafts of older versions have not all.
    const { base = null, renamings = [], translations = {}, held = [] } = kept;
    const unsaved = { text: String(kept.text), base, renamings, translations, held };
    return { key, at: Number(kept.at), ...unsaved };
  } catch {
    return null;
  }
}

/** Return the newest draft of a file that has another text, a translation, or something in a field. */
export function findDraft(path: string, text: string): KeptDraft | null {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(placeOf(path)));
    const found = keys.map(read).filter((one) => one !== null);
    const isOther = (one: KeptDraft) => one.text !== text || !isEmpty(one.translations);
    const others = found.filter((one) => isOther(one) || one.held.length > 0);
    return others.sort((a, b) => b.at - a.at)[0] ?? null;
  } catch {
    return null;
  }
}
