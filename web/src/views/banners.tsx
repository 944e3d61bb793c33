// What the page says about the file as a whole: drafts, other versions on disk, and files that are no machines.
import {
  discardDraft,
  mergeDisk,
  mergeOf,
  openFile,
  save,
  takeDisk,
  takeDraft,
} from "../state/files";
import { show } from "../state/gestures";
import { change, light, present, useStudio } from "../state/store";
import { Press } from "./Buttons";

/** Says that others changed the file while there are changes that are not saved. */
export function DiskNotice() {
  const disk = useStudio((state) => state.disk);
  if (disk === null) return null;
  const isGone = disk.text === null;
  return (
    <p class="banner" role="status">
      {isGone ? "This file was deleted or renamed on disk. " : "This file changed on disk. "}
      {!isGone && mergeOf(disk) !== null && (
        <Press run={() => mergeDisk(disk)}>Merge both</Press>
      )}{" "}
      <Press run={() => change({ conflict: disk })}>{isGone ? "What now?" : "Compare both"}</Press>
    </p>
  );
}

/** Says whose version is shown, and leads to the file as it is now. */
export function VersionNotice() {
  const old = useStudio((state) => state.old);
  if (old === null) return null;
  const { file } = old;
  return (
    <p class="banner" role="note">
      You read the version of {old.of}.{" "}
      {file === null && "Its file is gone. “Save as…” in the menu File brings it back. "}
      {file !== null && (
        <>
          <Press run={() => openFile(file)}>Open {file} as it is now</Press>{" "}
          <Press run={() => show("diff")}>Compare both</Press>
        </>
      )}
    </p>
  );
}

/** Says what is compared on the canvas. */
export function ChangesNotice() {
  const before = useStudio((state) => state.lit.before);
  if (before === null) return null;
  return (
    <p class="changes-notice" role="status">
      Since {before.name}: <i class="added">added</i> <i class="changed">changed</i>{" "}
      <i class="removed">removed</i>
      <Press class="small" run={() => light({ before: null })} label="Close" />
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
          {Object.entries({ "On disk": found.text, Yours: mine }).map(([title, text]) => (
            <section aria-label={title} key={title}>
              <h3>{title}</h3>
              <pre tabIndex={0}>{text}</pre>
            </section>
          ))}
        </div>
      )}
      <div class="buttons">
        <Press run={() => save(true)}>Write mine</Press>
        {found.text !== null && <Press run={takeDisk}>Take the one on disk</Press>}
        {found.text !== null && mergeOf(found) !== null && (
          <Press run={() => mergeDisk(found)}>Merge both</Press>
        )}
        <Press run={() => change({ conflict: null })}>Go on editing</Press>
      </div>
    </div>
  );
}

export function DraftOffer() {
  const draft = useStudio((state) => state.draft);
  if (draft === null) return null;
  return (
    <p class="banner" role="status">
      There is a draft of this file that was not saved. <Press run={takeDraft}>Take it up</Press>{" "}
      <Press run={discardDraft}>Discard it</Press>
    </p>
  );
}
