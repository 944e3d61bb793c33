// A text in another language: its field, and whether it is missing or fuzzy.
import type { TextRow } from "../api/types";
import { change, useStudio } from "../state/store";
import { placeOf, translate, translationOf } from "../state/translations";
import { Press } from "../views/Buttons";
import { Select } from "../views/Select";
import { Draft } from "./inputs";

type TranslatedProps = Readonly<{ row: TextRow; tag: string; shared: object }>;

export function Translated({ row, tag, shared }: TranslatedProps) {
  const { text, fuzzy } = useStudio(() => translationOf(row, tag));
  const place = { pointer: placeOf(tag, row.pointer), label: `Translate into ${tag}` };
  const made = (words: string) => ({ source: row.text, text: words, fuzzy: false });
  return (
    <>
      <Draft
        shared={{ ...shared, lang: tag }}
        place={place}
        text={text}
        isLong
        read={(words) => ({ form: "translation", value: made(words) })}
      />
      {text === "" && <span class="fault warning">missing</span>}
      {text !== "" && fuzzy && (
        <div>
          <span class="fault warning">fuzzy</span>{" "}
          <Press
            class="small"
            aria-label={`It is right: ${row.pointer} in ${tag}`}
            run={() => translate(place.pointer, made(text), place.label)}
            label="It is right"
          />
        </div>
      )}
    </>
  );
}

/** The language that text fields are shown in. */
export function LanguagePicker() {
  const texts = useStudio((state) => state.texts);
  const language = useStudio((state) => state.language);
  if (!texts) return null;
  return (
    <label class="language">
      Language of texts
      <Select
        value={language}
        options={[["", `${texts.language}, its own`], ...texts.languages]}
        choose={(tag) => change({ language: tag })}
      />
    </label>
  );
}
