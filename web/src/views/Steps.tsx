// Whole steps of a conversation to begin with, and an invitation where there is nothing yet.
import { nodes } from "../state/machine";
import { askFor, confirmStep } from "../state/steps";
import { present, useStudio } from "../state/store";
import { Press } from "./Buttons";

export function Steps() {
  const isDefinition = useStudio((state) => present(state)?.checked.kind === "definition");
  if (!isDefinition) return null;
  return (
    <>
      <Press run={askFor} title="A" label="Ask for…" />
      <Press run={confirmStep} title="R" label="Confirm…" />
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
        <Press class="main" run={askFor} label="Ask the first question" />
      </div>
      <p class="quiet">
        Each question is a state. After the last one, “Confirm…” reads the answers back.
      </p>
    </div>
  );
}
