// The page: files, the three views of one document, and the panel beside them.
import { type ComponentType, render } from "preact";
import { Suspense, lazy } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { api } from "./api/client";
import { warmUp } from "./canvas/layout";
import { addState, duplicate, find, remove, tidy } from "./state/actions";
import { isEdge } from "./state/machine";
import { listenToKeys, showShortcuts } from "./shortcuts";
import { takeSchema } from "./state/schema";
import { openFile, refreshFiles, save, watchDisk } from "./state/files";
import { jump, redo, show, undo } from "./state/gestures";
import {
  type Panel,
  type View,
  attempt,
  change,
  getState,
  openPanel,
  present,
  useStudio,
} from "./state/store";
import { isUnsaved } from "./state/unsaved";
import { checkNow } from "./state/versions";
import {
  ChangesNotice,
  Conflict,
  DiskNotice,
  DraftOffer,
  NoMachine,
  VersionNotice,
} from "./views/banners";
import { ContextMenu, Press } from "./views/Buttons";
import { Details } from "./views/Details";
import { Dialogs, askChoice } from "./views/dialogs";
import { ExportMenu, FileMenu, askFile, goHome } from "./views/FileMenu";
import { Findings } from "./views/Findings";
import Outline from "./views/Outline";
import { Invitation, Steps } from "./views/Steps";
import { Start } from "./views/Start";
import { Tests } from "./views/Tests";
import { useTexts } from "./state/translations";
import "./style.css";

const Canvas = lazy(() => import("./canvas/Canvas"));
const TextView = lazy(() => import("./views/TextView"));
const Texts = lazy(() => import("./views/Texts"));
const Diff = lazy(() => import("./views/Diff"));
const Talk = lazy(() => import("./talk/Talk"));

const VIEWS: readonly [View, string][] = [
  ["canvas", "Canvas"],
  ["outline", "Outline"],
  ["text", "Text"],
  ["texts", "Languages"],
  ["diff", "Changes"],
];
const PANELS: readonly [Panel, string, ComponentType][] = [
  ["details", "Details", Details],
  ["talk", "Talk", Talk],
  ["findings", "Findings", Findings],
  ["tests", "Tests", Tests],
];
async function showHistory(): Promise<void> {
  const { versions, at, savedText } = getState();
  const rows = versions.map((one, index) => {
    const marks = [index === at ? "now" : "", one.text === savedText ? "saved" : ""];
    const hint = marks.filter(Boolean).join(", ");
    return { value: String(index), label: `${index}. ${one.label}`, hint };
  });
  const chosen = await askChoice("Steps", "Go to a step", rows.reverse());
  if (chosen !== null) await jump(Number(chosen));
}

function Top() {
  const state = useStudio((whole) => whole);
  const { path, view, at, versions, held, writable, isPanelOpen } = state;
  const unsaved = isUnsaved(state);
  return (
    <header class="topbar">
      <Press class="plain home" run={goHome} title="All files">
        <b>llm-fsm</b> <span class="wide">studio</span>
      </Press>
      <h1 class="path">
        <Press class="plain" run={askFile} title="Ctrl+O">
          {path}
          {!writable && <small> read only</small>}
          {unsaved && (
            <span class="dot" role="img" aria-label="not saved" title="Not saved">
              ●
            </span>
          )}
        </Press>
      </h1>
      <nav class="views" aria-label="Views">
        {VIEWS.filter(([name]) => name !== "texts" || state.texts).map(([name, label]) => (
          <Press
            key={name}
            aria-current={view === name ? "page" : undefined}
            run={() => show(name)}
            label={label}
          />
        ))}
      </nav>
      <div class="tools" role="toolbar" aria-label="Tools">
        <Press disabled={at === 0 && held.size === 0} run={undo} title="Ctrl+Z" label="Undo" />
        <Press disabled={at >= versions.length - 1} run={redo} title="Ctrl+Y" label="Redo" />
        <Press class="wide" run={showHistory} label="Steps" />
        <Press class="wide" run={find} title="Ctrl+K" label="Find" />
        <FileMenu />
        <ExportMenu />
        <Press
          class="main"
          disabled={!unsaved || !writable}
          run={save}
          title="Ctrl+S"
          label="Save"
        />
        <Press class="wide" aria-label="Keys" title="Keys (?)" run={showShortcuts} label="?" />
        <Press
          class="wide"
          aria-pressed={isPanelOpen}
          aria-label="Side panel"
          title="Show or hide the side panel"
          run={() => change({ isPanelOpen: !isPanelOpen })}
          label="◨"
        />
      </div>
    </header>
  );
}

function CanvasTools() {
  const selected = useStudio((state) => state.selected);
  const state = selected.length === 1 && !isEdge(selected[0]!) ? selected[0]! : null;
  return (
    <div class="canvas-tools" role="toolbar" aria-label="Canvas tools">
      <Steps />
      <Press run={() => addState(state)} title="N" label="Add state" />
      <Press run={tidy}>Tidy up{selected.length > 1 ? " selection" : ""}</Press>
      {selected.length > 0 && (
        <>
          <Press run={() => duplicate(selected)} title="Ctrl+D" label="Duplicate" />
          <Press run={() => remove(selected)} title="Del" label="Delete" />
          <Press class="narrow" run={() => openPanel("details")} label="Details" />
        </>
      )}
    </div>
  );
}

function SidePanel() {
  const panel = useStudio((state) => state.panel);
  const count = useStudio((state) => present(state)?.checked.findings.length ?? 0);
  const Shown = PANELS.find(([name]) => name === panel)![2];
  return (
    <aside class="panel" aria-label="Side panel">
      <div class="tabs">
        <div role="tablist" aria-label="Panels">
          {PANELS.map(([name, label]) => (
            <Press
              key={name}
              role="tab"
              id={`tab-${name}`}
              aria-selected={panel === name}
              aria-controls="panel-body"
              run={() => openPanel(name)}
            >
              {label}
              {name === "findings" && count > 0 && <span class="count">{count}</span>}
            </Press>
          ))}
        </div>
        <Press
          class="plain close"
          aria-label="Close the panel"
          run={() => change({ isPanelOpen: false })}
          label="×"
        />
      </div>
      <div
        class="panel-body"
        id="panel-body"
        role="tabpanel"
        tabIndex={0}
        aria-labelledby={`tab-${panel}`}
      >
        <Suspense fallback={<p class="quiet">Opening…</p>}>
          <Shown />
        </Suspense>
      </div>
    </aside>
  );
}

const counted = (count: number, what: string): string =>
  `${count} ${what}${count === 1 ? "" : "s"}`;

function Messages() {
  const state = useStudio((whole) => whole);
  const { notice, problem, busy } = state;
  const { checked, isUnchecked: isChecking } = present(state) ?? {};
  const errors = checked?.findings.filter((one) => one.level === "error").length ?? 0;
  const others = (checked?.findings.length ?? 0) - errors;
  return (
    <footer class="status">
      <span role="status">{busy ? "Working…" : notice}</span>
      {problem && (
        <span role="alert" class="error">
          {problem} <Press class="small" run={() => change({ problem: "" })} label="Close" />
        </span>
      )}
      {checked && (
        <Press class="plain" run={() => openPanel("findings")}>
          {isChecking ? "Checking…" : `${counted(errors, "error")}, ${counted(others, "warning")}`}
        </Press>
      )}
    </footer>
  );
}

function App() {
  const { path, view, isPanelOpen } = useStudio((state) => state);
  const [hasBegun, setBegun] = useState(false);
  useTexts();
  useEffect(() => void begin().finally(() => setBegun(true)), []);
  if (path === null && !hasBegun) return <p class="quiet opening">Opening…</p>;
  if (path === null) {
    return (
      <div class="app">
        <Start />
        <Messages />
        <Dialogs />
      </div>
    );
  }
  return (
    <div class="app">
      <Top />
      <section aria-label="Notices">
        <DraftOffer />
        <DiskNotice />
        <VersionNotice />
        <NoMachine />
      </section>
      <div class={`work ${isPanelOpen ? "with-panel" : ""}`}>
        <main class="view" aria-label={VIEWS.find(([name]) => name === view)?.[1]}>
          <Suspense fallback={<p class="quiet">Opening…</p>}>
            {view === "canvas" && (
              <>
                <CanvasTools />
                <ChangesNotice />
                <Canvas />
                <Invitation />
              </>
            )}
            {view === "outline" && <Outline />}
            {view === "text" && <TextView />}
            {view === "texts" && <Texts />}
            {view === "diff" && <Diff />}
          </Suspense>
          <ContextMenu />
        </main>
        {isPanelOpen && <SidePanel />}
      </div>
      <nav class="bottombar" aria-label="Panels">
        {PANELS.map(([name, label]) => (
          <Press key={name} run={() => openPanel(name)} label={label} />
        ))}
        <Press run={find}>Find</Press>
      </nav>
      <Messages />
      <Conflict />
      <Dialogs />
    </div>
  );
}

const begin = () =>
  attempt(async () => {
    const named = new URLSearchParams(location.search).get("file");
    if (getState().view === "canvas") {
      warmUp();
      void import("./canvas/Canvas");
    }
    // The file comes first: the server answers one question after the other.
    if (named) await openFile(named);
    const [settings, schema] = await Promise.all([api.settings(), api.schema().catch(() => ({}))]);
    takeSchema(schema);
    change({ settings });
    if (named === null && settings.file) await openFile(settings.file);
    await refreshFiles();
  });

watchDisk();
listenToKeys();
addEventListener("beforeunload", (event) => {
  if (isUnsaved()) event.preventDefault();
});
// A server that was started again is asked at once, so that old findings do not stay.
addEventListener("online", () => void checkNow());

render(<App />, document.getElementById("app")!);
