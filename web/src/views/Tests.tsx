// Run the tests of the document, and show on the canvas what they cover.
import { useState } from "preact/hooks";
import { api } from "../api/client";
import type { RanTests } from "../api/types";
import { settledText } from "../state/gestures";
import { busily, light, useStudio } from "../state/store";
import { showFigures } from "../talk/talk";
import { Press } from "./Buttons";

export function Tests() {
  const [ran, setRan] = useState<RanTests | null>(null);
  const { busy, settings } = useStudio((state) => state);
  const run = () =>
    busily(async () => {
      const found = await api.runTests(await settledText());
      setRan(found);
      light({ covered: found.covered, missed: found.missed });
    });
  return (
    <section aria-label="Tests">
      <h2>Tests</h2>
      <div class="buttons">
        <Press class="main" disabled={busy} run={run} label="Run the tests" />
        <Press
          run={() => {
            setRan(null);
            light({ covered: null, missed: null, figures: null });
          }}
          label="Clear the canvas"
        />
        {settings?.has_store && <Press run={showFigures}>Figures of the store</Press>}
      </div>
      {ran && (
        <div role="status">
          <p class={ran.failed > 0 ? "error" : "good"}>
            {ran.reason ??
              `${ran.passed} passed, ${ran.failed} failed, ${Math.round(ran.share)} % covered`}
          </p>
          <ul class="findings">
            {ran.results.map((one) => (
              <li key={one.file + one.name} class={one.passed ? "" : "error"}>
                <b>{one.passed ? "✔" : one.skipped ? "–" : "✖"}</b> {one.name}
                <small> {one.file}</small>
                {one.failures.map((text) => (
                  <p key={text}>{text}</p>
                ))}
              </li>
            ))}
          </ul>
        </div>
      )}
    </section>
  );
}
