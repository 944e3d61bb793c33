// What the page says about the file as a whole: drafts, other versions on disk, and files that are no machines.
import { discardDraft, mergeDisk, mergeOf, save, takeDisk, takeDraft } from "../state/files";
import { change, present, useStudio } from "../state/store";

/** Says that others changed the file while there are changes that are not saved. */
export function DiskNotice() {
  const disk = useStudio((state) => state.disk);
  if (disk === null) return null;
  const isGone = disk.text === null;
  return (
    <p class="banner" role="status">
      {isGone ? "This file was deleted or renamed on disk. " : "This file changed on disk. "}
      {!isGone && mergeOf(disk) !== null && (
        <button type="button" onClick={() => void mergeDisk(disk)}>
          Merge both
        </button>
      )}{" "}
      <button type="button" onClick={() => change({ conflict: disk })}>
        {isGone ? "What now?" : "Compare both"}
      </button>
    </p>
  );
}

/** Says that a file is no machine, although it is JSON. */
export function NoMachine() {
  const checked = useStudio((state) => present(state)?.checked);
  if (!checked?.is_json || checked.kind === "definition" || checked.kind === "workflow")
    return null;
  const isTests = checked.kind === "tests";
  return (
    <p class="banner" role="note">
      {isTests
        ? "These are conversation tests. Open their definition to run them."
        : "This is JSON, but no machine: a machine has “states” and an “initial_state”."}
    </p>
  );
}

export function Conflict() {
  const found = useStudio((state) => state.conflict);
  const mine = useStudio((state) => present(state)?.text ?? "");
  if (!found) return null;
  return (
    <div class="conflict" role="alertdialog" aria-labelledby="conflict-title">
      <h2 id="conflict-title">The file changed on disk</h2>
      {found.text === null ? (
        <p>
          It was deleted, renamed or moved. You can write your version again, under the old name.
        </p>
      ) : (
        <div class="both">
          <section aria-label="On disk">
            <h3>On disk</h3>
            <pre tabIndex={0}>{found.text}</pre>
          </section>
          <section aria-label="Yours">
            <h3>Yours</h3>
            <pre tabIndex={0}>{mine}</pre>
          </section>
        </div>
      )}
      <div class="buttons">
        <button type="button" onClick={() => void save(true)}>
          Write mine
        </button>
        {found.text !== null && (
          <button type="button" onClick={takeDisk}>
            Take the one on disk
          </button>
        )}
        {found.text !== null && mergeOf(found) !== null && (
          <button type="button" onClick={() => void mergeDisk(found)}>
            Merge both
          </button>
        )}
        <button type="button" onClick={() => change({ conflict: null })}>
          Go on editing
        </button>
      </div>
    </div>
  );
}

export function DraftOffer() {
  const draft = useStudio((state) => state.draft);
  if (draft === null) return null;
  return (
    <p class="banner" role="status">
      There is a draft of this file that was not saved.{" "}
      <button type="button" onClick={takeDraft}>
        Take it up
      </button>{" "}
      <button type="button" onClick={discardDraft}>
        Discard it
      </button>
    </p>
  );
}
