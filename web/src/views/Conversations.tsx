// Stored conversations of all definitions, the newest first, and those that are searched for.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import type { StoredRow } from "../api/types";
import { useLatest } from "../state/observed";
import { attempt } from "../state/store";
import { openStored } from "../talk/talk";
import { Press } from "./Buttons";

export default function Conversations() {
  const [words, setWords] = useState("");
  const [rows, setRows] = useState<readonly StoredRow[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const read = (after: string | null, isWanted: () => boolean) =>
    attempt(async () => {
      const page = await api.stored(words.trim(), after);
      if (!isWanted()) return;
      setRows((now) => [...(after === null ? [] : (now ?? [])), ...page.conversations]);
      setNext(page.next);
    });
  useLatest([words], (isWanted) => read(null, isWanted));
  return (
    <section class="conversations" aria-label="Conversations">
      <h2>Conversations</h2>
      <label>
        Search
        <input
          type="search"
          value={words}
          placeholder="an id, a definition or a state"
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </label>
      <ul class="files" aria-label="Stored conversations">
        {(rows ?? []).map((one) => (
          <li key={one.id}>
            <Press run={() => openStored(one.id)}>
              <b>{one.id}</b>
              <span>{one.definition}</span>
              <span>{outcomeOf(one)}</span>
              <small>
                {one.turns} turns, <Moment at={one.created} /> to <Moment at={one.updated} />
              </small>
            </Press>
          </li>
        ))}
      </ul>
      {rows?.length === 0 && <p>{words === "" ? "There are none yet." : "None was found."}</p>}
      {next !== null && <Press run={() => read(next, () => true)}>Show more</Press>}
    </section>
  );
}

function outcomeOf({ ended, outcome, paused, state }: StoredRow): string {
  if (ended) return `ended in ${state}${outcome && outcome !== "final" ? `: ${outcome}` : ""}`;
  return paused ? `waits in ${state} (${paused.replace("_", " ")})` : `goes on in ${state}`;
}

function Moment({ at }: { at: number }) {
  const date = new Date(at * 1000);
  const shown = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return <time dateTime={date.toISOString()}>{shown}</time>;
}
