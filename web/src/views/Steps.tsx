// Whole steps of a conversation to begin with, and an invitation where there is nothing yet.
import { nodes } from "../state/machine";
import { askFor, confirmStep } from "../state/steps";
import { present, useStudio } from "../state/store";

export function Steps() {
  const isDefinition = useStudio((state) => present(state)?.checked.kind === "definition");
  if (!isDefinition) return null;
  return (
    <>
      <button type="button" onClick={() => void askFor()} title="A">
        Ask for…
      </button>
      <button type="button" onClick={() => void confirmStep()} title="R">
        Confirm…
      </button>
    </>
  );
}

/** Says how to begin, in a machine without states. */
export function Invitation() {
  const isEmpty = useStudio(
    (state) => present(state)?.checked.kind === "definition" && nodes().length === 0,
  );
  if (!isEmpty) return null;
  return (
    <div class="invitation" role="note">
      <p>This machine has no states yet. Begin with the first question that it asks.</p>
      <div class="buttons">
        <button type="button" class="main" onClick={() => void askFor()}>
          Ask the first question
        </button>
      </div>
      <p class="quiet">
        Each question is a state. After the last one, “Confirm…” reads the answers back.
      </p>
    </div>
  );
}
