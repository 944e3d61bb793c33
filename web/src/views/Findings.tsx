// All findings of the checker, each with the way to its place, and the safe corrections.
import type { FindingRow } from "../api/types";
import { stepsOf } from "../forms/pointers";
import { reveal } from "../state/actions";
import { gesture } from "../state/gestures";
import { correctionOf, fieldOf } from "../state/hints";
import { edges, nodes } from "../state/machine";
import { change, isNarrow, present, useStudio } from "../state/store";
import { checkNow, typed } from "../state/versions";
import { Press } from "./Buttons";

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
    const field = fieldOf(found, checked.value);
    const [root, language] = stepsOf(field);
    if (root === "texts") {
      change({ view: "texts", language, isPanelOpen: !isNarrow() });
      focusField(field);
      return;
    }
    const id = subject(found);
    if (id !== null && checked.is_json) reveal(id);
    else change({ view: "text", cursor: found.offset ?? 0 });
  };
  return (
    <section aria-label="Findings">
      <h2>Findings</h2>
      {checked.findings.length === 0 && <p class="good">Nothing is wrong with this machine.</p>}
      {checked.fix && (
        <Press
          class="main"
          title={checked.fix.changes.join("\n")}
          run={() => {
            typed(checked.fix!.text);
            void checkNow();
          }}
        >
          Mend what is safe to mend ({checked.fix.changes.length})
        </Press>
      )}
      <ul class="findings">
        {checked.findings.slice(0, 500).map((one, index) => (
          <li key={index} class={one.level}>
            <Press run={() => go(one)}>
              <span class={`fault ${one.level}`}>{one.level}</span> {one.message}
              {one.hint && <small>{one.hint}</small>}
            </Press>
            {one.hint && checked.is_json && <Hint found={one} value={checked.value} go={go} />}
            <Press
              class="small"
              title="Show it in the text"
              run={() => change({ view: "text", cursor: one.offset ?? 0 })}
            >
              {one.name} · line {one.line ?? "?"}
            </Press>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface HintProps {
  readonly found: FindingRow;
  readonly value: unknown;
  readonly go: (found: FindingRow) => void;
}

/** Does what the hint of a finding says, or leads to the field that it is about. */
function Hint({ found, value, go }: HintProps) {
  const correction = correctionOf(found, value);
  if (correction) {
    const { label, gesture: made } = correction;
    return <Press class="small" run={() => gesture(label, [made])} label={label} />;
  }
  const pointer = fieldOf(found, value);
  const fill = () => {
    go(found);
    focusField(pointer);
  };
  return (
    <Press class="small" run={fill}>
      Go to “{stepsOf(pointer).at(-1) ?? "machine"}”
    </Press>
  );
}

const MOST_FRAMES = 60;

/** Go to the first field at or below a pointer, as soon as its form is there. */
function focusField(pointer: string, frames = MOST_FRAMES): void {
  const field = document.querySelector<HTMLElement>(`[data-field^=${JSON.stringify(pointer)}]`);
  const more = field?.closest("details");
  if (more) more.open = true;
  field?.focus();
  if (!field && frames > 0) requestAnimationFrame(() => focusField(pointer, frames - 1));
}
