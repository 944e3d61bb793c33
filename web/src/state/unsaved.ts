// What the files on disk do not have.
import type * as T from "../api/types";
import { isEmpty } from "./drafts";
import { same } from "./merge";
import { type Translations, type Version, getState, present } from "./store";

export function isUnsaved(from = getState()): boolean {
  const version = present(from);
  if (version === null) return false;
  const isTyped = version.text !== from.savedText || from.held.size > 0;
  return isTyped || !isEmpty(unsavedTranslations(version, from));
}

export function unsavedTranslations(version: Version, from = getState()): Translations {
  const saved: Translations = { ...from.originals, ...from.savedTranslations };
  const wanted = Object.entries<T.Translation>({ ...from.originals, ...version.translations });
  return Object.fromEntries(wanted.filter(([place, one]) => !same(one, saved[place])));
}
