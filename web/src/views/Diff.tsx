// What is different from a commit, the saved file or another file: by meaning, as text, and on the canvas.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { GitCommit, DiffAnswer } from "../api/types";
import { leaveUnsaved } from "../state/actions";
import { openVersion } from "../state/files";
import { useLatest } from "../state/observed";
import { attempt, change, getState, light, present, tell, useStudio } from "../state/store";
import { isUnsaved } from "../state/unsaved";
import { Alert, Press } from "./Buttons";
import { Select } from "./Select";

const SAVED = "\u0000saved";
const COMMIT = "\u0000commit ";

const IMPACT: Record<string, string> = {
  safe: "safe",
  "needs-map": "needs a map",
  strands: "strands conversations",
};

export default function Diff() {
  const { settings, listing, path, old } = useStudio((state) => state);
  const text = present()?.text ?? "";
  const first = settings?.has_git ? `${COMMIT}HEAD` : SAVED;
  const [against, setAgainst] = useState(old?.file ?? first);
  const [commits, setCommits] = useState<readonly GitCommit[]>([]);
  const [found, setFound] = useState<DiffAnswer | null>(null);
  const [problem, setProblem] = useState("");
  const isCommit = against.startsWith(COMMIT);
  useEffect(() => {
    if (path !== null && settings?.has_git) api.commits(path).then(setCommits).catch(tell);
  }, [path, settings]);
  useLatest([path, text, against], (isWanted) => {
    if (path === null) return;
    const before = against === SAVED ? getState().savedText : null;
    const other = against === SAVED || isCommit ? null : against;
    const commit = isCommit ? against.slice(COMMIT.length) : "HEAD";
    api
      .diff({ path, text, other, before, commit })
      .then((answer) => {
        if (!isWanted()) return;
        setFound(answer);
        setProblem("");
      })
      .catch((error: Error) => isWanted() && setProblem(error.message));
  });
  const others = (listing?.files ?? []).filter((one) => one.path !== path || old !== null);
  const options = new Map([
    ...(settings?.has_git ? [[`${COMMIT}HEAD`, "the last commit"] as const] : []),
    ...commits.map((one) => [COMMIT + one.id, commitWords(one)] as const),
    [SAVED, "the saved file"] as const,
    ...others.map((one) => [one.path, one.path] as const),
  ]);
  const name = options.get(against) ?? against;
  const before = found?.before ?? null;
  return (
    <div class="diff">
      <div class="line">
        <label class="grow">
          Compare with{" "}
          <Select
            value={against}
            options={[...options]}
            choose={(chosen) => {
              setAgainst(chosen);
              setFound(null); // what is shown and drawn is of one version
            }}
          />
        </label>
        <Press
          disabled={before === null}
          run={() => draw(name, before!, found?.changes ?? null)}
          label="Draw on the canvas"
        />
        {isCommit && (
          <Press
            disabled={before === null}
            run={() => openCommit(name, before!)}
            label="Open this version"
          />
        )}
      </div>
      <Alert words={problem} />
      {found && (
        <>
          <h2>By meaning</h2>
          {found.reason && <p>{found.reason}</p>}
          {found.changes?.length === 0 && <p>Nothing changes for conversations.</p>}
          <ul class="findings">
            {(found.changes ?? []).map((one, index) => (
              <li key={index}>
                <span class={`impact ${one.impact}`}>{IMPACT[one.impact]}</span> {one.message}
                {one.reason && <small> {one.reason}</small>}
              </li>
            ))}
          </ul>
          <h2>As text</h2>
          {found.unified === "" && <p>There is no difference.</p>}
          <pre class="unified" role="region" tabIndex={0} aria-label="Difference as text">
            {found.unified.split("\n").map((line, index) => (
              <span key={index} class={lineClass(line)}>
                {line + "\n"}
              </span>
            ))}
          </pre>
        </>
      )}
    </div>
  );
}

const dateOf = (time: number): string =>
  new Date(time * 1000).toLocaleDateString(undefined, { dateStyle: "medium" });
const commitWords = ({ id, time, words }: GitCommit): string =>
  `${words} (${id.slice(0, 7)}, ${dateOf(time)})`;

/** Draw the differences to another text over the present picture. */
const draw = (name: string, before: string, changes: DiffAnswer["changes"]) =>
  attempt(async () => {
    const { graph } = await api.check({ path: getState().path!, text: before });
    const places = (changes ?? []).map((one) => one.pointer);
    light({ before: { name, graph, places } });
    change({ view: "canvas" });
  });

/** Open the file as a commit has it, to read it and to compare it with others. */
async function openCommit(name: string, text: string): Promise<void> {
  const { path, old } = getState();
  const file = old === null ? path : old.file;
  if (isUnsaved() && !(await leaveUnsaved())) return;
  await attempt(() => openVersion(path!, text, { of: name, file }));
}

function lineClass(line: string): string {
  if (line.startsWith("@@")) return "place";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "";
}
