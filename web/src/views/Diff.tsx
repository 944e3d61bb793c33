// What is different from the last commit, the saved file or another file: by meaning, and as text.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { DiffAnswer } from "../api/types";
import { getState, present, useStudio } from "../state/store";

const SAVED = "\u0000saved";
const COMMIT = "\u0000commit";

const IMPACT: Record<string, string> = {
  safe: "safe",
  "needs-map": "needs a map",
  strands: "strands conversations",
};

export default function Diff() {
  const settings = useStudio((state) => state.settings);
  const listing = useStudio((state) => state.listing);
  const text = useStudio((state) => present(state)?.text ?? "");
  const path = useStudio((state) => state.path);
  const [against, setAgainst] = useState(settings?.has_git ? COMMIT : SAVED);
  const [found, setFound] = useState<DiffAnswer | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (path === null) return;
    let isOld = false;
    const before = against === SAVED ? getState().savedText : null;
    const other = against === SAVED || against === COMMIT ? null : against;
    api
      .diff({ path, text, other, before })
      .then((answer) => {
        if (isOld) return;
        setFound(answer);
        setProblem("");
      })
      .catch((error: Error) => isOld || setProblem(error.message));
    return () => {
      isOld = true;
    };
  }, [path, text, against]);
  const others = (listing?.files ?? []).filter((one) => one.path !== path);
  return (
    <div class="diff">
      <label>
        Compare with{" "}
        <select value={against} onChange={(event) => setAgainst(event.currentTarget.value)}>
          {settings?.has_git && <option value={COMMIT}>the last commit</option>}
          <option value={SAVED}>the saved file</option>
          {others.map((one) => (
            <option key={one.path} value={one.path}>
              {one.path}
            </option>
          ))}
        </select>
      </label>
      {problem && (
        <p role="alert" class="error">
          {problem}
        </p>
      )}
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

function lineClass(line: string): string {
  if (line.startsWith("@@")) return "place";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "";
}
