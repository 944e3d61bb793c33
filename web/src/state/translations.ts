// Texts of the definition in its further languages: what their files have, and what is typed.
import { api } from "../api/client";
import type * as T from "../api/types";
import { join, stepsOf, valueIn } from "../forms/pointers";
import { useLatest } from "./observed";
import { change, getState, present, tell, useStudio } from "./store";
import { unsavedTranslations } from "./unsaved";
import { checkNow, record } from "./versions";

export const placeOf = (tag: string, pointer: string): string => join("/texts", tag, pointer);

/** Return a text in another language. What is typed counts while its text is the same. */
export function translationOf(row: T.TextRow, tag: string): T.Translation {
  const typed = present()?.translations[placeOf(tag, row.pointer)];
  return typed?.source === row.text ? typed : row.translations[tag]!;
}

/** Take a translation: one step of undo. */
export function translate(place: string, made: T.Translation, label: string): void {
  const now = present();
  if (!now) return;
  const [, tag = "", pointer = ""] = stepsOf(place);
  const { texts, originals } = getState();
  const row = texts?.rows.find((one) => one.pointer === pointer);
  if (row) change({ originals: { [place]: translationOf(row, tag), ...originals } });
  record({ ...now, translations: { ...now.translations, [place]: made }, label });
  void checkNow();
}

/** Ask for the texts of a definition with further languages, as often as it was checked. */
export function useTexts(): void {
  const version = useStudio(present);
  const view = useStudio((state) => state.view);
  useLatest([version?.checked, view], (isWanted) => {
    const { path } = getState();
    const { is_json, value } = version?.checked ?? {};
    if (!version || path === null || !is_json) return;
    const languages = valueIn(value, "/languages");
    if (!Array.isArray(languages) || languages.length === 0) {
      change({ texts: null });
      return;
    }
    const translations = unsavedTranslations(version);
    api
      .texts({ path, text: version.text, translations })
      .then((texts) => isWanted() && change({ texts }))
      .catch(tell);
  });
}
