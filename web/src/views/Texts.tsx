// All texts of the definition in its languages: what is missing or fuzzy, each with its field.
import { useState } from "preact/hooks";
import type { TextRow } from "../api/types";
import { stepsOf } from "../forms/pointers";
import { LanguagePicker, Translated } from "../forms/Translated";
import { openDetails, present, useStudio } from "../state/store";
import { translationOf } from "../state/translations";
import { Press } from "./Buttons";
import { Table } from "./Table";

/** Rows that are shown before the rest is asked for. */
const MOST = 300;

export default function Texts() {
  const texts = useStudio((state) => state.texts);
  const language = useStudio((state) => state.language);
  useStudio(present);
  const [isShort, setShort] = useState(false);
  const [most, setMost] = useState(MOST);
  if (!texts) return <p class="quiet opening">There are no texts in further languages.</p>;
  const tags = texts.languages.filter((tag) => language === "" || tag === language);
  const isOpen = (row: TextRow) =>
    tags.some((tag) => {
      const { text, fuzzy } = translationOf(row, tag);
      return text === "" || fuzzy;
    });
  const open = texts.rows.filter(isOpen);
  const rows = isShort ? open : texts.rows;
  return (
    <div class="texts">
      <div class="line">
        <LanguagePicker />
        <label>
          <input type="checkbox" checked={isShort} onChange={() => setShort(!isShort)} /> Only
          missing and fuzzy ones
        </label>
      </div>
      <p role="status">
        {open.length} of {texts.rows.length} texts are missing or fuzzy.
      </p>
      <Table label="Texts" head={["Place", texts.language, ...tags]}>
        {rows.slice(0, most).map((row) => (
          <tr key={row.pointer}>
            <th scope="row">
              <Press class="plain" run={() => show(row)} label={placeWords(row.pointer)} />
            </th>
            <td lang={texts.language}>{row.text}</td>
            {tags.map((tag) => (
              <td key={tag} lang={tag}>
                <Translated
                  row={row}
                  tag={tag}
                  shared={{ "aria-label": `${row.pointer} in ${tag}` }}
                />
              </td>
            ))}
          </tr>
        ))}
      </Table>
      {rows.length > most && (
        <Press run={() => setMost(most + MOST)}>Show more of {rows.length} texts</Press>
      )}
    </div>
  );
}

const placeWords = (pointer: string): string =>
  pointer.replace(/^\/(states|context_schema\/properties)/, "").replaceAll("/", " ");

/** Show the form of the state or key that has a text. */
function show({ pointer }: TextRow): void {
  const [root, state = ""] = stepsOf(pointer);
  openDetails(...(root === "states" ? [state] : []));
}
