// All findings of the checker, each with the way to its place, and the safe corrections.
import type { FindingRow } from "../api/types";
import { reveal } from "../state/actions";
import { edges, nodes } from "../state/machine";
import { change, present, useStudio } from "../state/store";
import { checkNow, typed } from "../state/versions";

/** Return the state or transition that a finding is about: the longest pointer that leads to it. */
function subject(found: FindingRow): string | null {
  const holds = (pointer: string) =>
    pointer !== "" && (found.pointer === pointer || found.pointer.startsWith(`${pointer}/`));
  const edge = edges().find((one) => holds(one.pointer));
  return edge?.id ?? nodes().find((one) => holds(one.pointer))?.id ?? found.state;
}

export function Findings() {
  const checked = useStudio((state) => present(state)?.checked);
  if (!checked) return null;
  const go = (found: FindingRow) => {
    const id = subject(found);
    if (id !== null && checked.is_json) reveal(id);
    else change({ view: "text", cursor: found.offset ?? 0 });
  };
  return (
    <section aria-label="Findings">
      <h2>Findings</h2>
      {checked.findings.length === 0 && <p class="good">Nothing is wrong with this machine.</p>}
      {checked.fix && (
        <button
          type="button"
          class="main"
          title={checked.fix.changes.join("\n")}
          onClick={() => {
            typed(checked.fix!.text);
            void checkNow();
          }}
        >
          Mend what is safe to mend ({checked.fix.changes.length})
        </button>
      )}
      <ul class="findings">
        {checked.findings.slice(0, 500).map((one, index) => (
          <li key={index} class={one.level}>
            <button type="button" onClick={() => go(one)}>
              <span class={`fault ${one.level}`}>{one.level}</span> {one.message}
              {one.hint && <small>{one.hint}</small>}
            </button>
            <button
              type="button"
              class="small"
              aria-label={`Show line ${one.line ?? 1} in the text`}
              onClick={() => change({ view: "text", cursor: one.offset ?? 0 })}
            >
              {one.name} · line {one.line ?? "?"}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
