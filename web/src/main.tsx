// The page: files, the three views of one document, and the panel beside them.
import { render } from "preact";
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
  change,
  getState,
  isUnsaved,
  openPanel,
  present,
  tell,
  useStudio,
} from "./state/store";
import { checkNow } from "./state/versions";
import { Conflict, DiskNotice, DraftOffer, NoMachine } from "./views/banners";
import { Details } from "./views/Details";
import { Dialogs, askChoice } from "./views/dialogs";
import { ExportMenu, FileMenu, askFile, goHome } from "./views/FileMenu";
import { Findings } from "./views/Findings";
import Outline from "./views/Outline";
import { Invitation, Steps } from "./views/Steps";
import { Start } from "./views/Start";
import { Tests } from "./views/Tests";
import "./style.css";

const Canvas = lazy(() => import("./canvas/Canvas"));
const TextView = lazy(() => import("./views/TextView"));
const Diff = lazy(() => import("./views/Diff"));
const Talk = lazy(() => import("./talk/Talk"));

const VIEWS: readonly [View, string][] = [
  ["canvas", "Canvas"],
  ["outline", "Outline"],
  ["text", "Text"],
  ["diff", "Changes"],
];
const PANELS: readonly [Panel, string][] = [
  ["details", "Details"],
  ["talk", "Talk"],
  ["findings", "Findings"],
  ["tests", "Tests"],
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
  const path = useStudio((state) => state.path);
  const view = useStudio((state) => state.view);
  const at = useStudio((state) => state.at);
  const count = useStudio((state) => state.versions.length);
  const unsaved = useStudio(isUnsaved);
  const holds = useStudio((state) => state.held.size > 0);
  const writable = useStudio((state) => state.writable);
  const isPanelOpen = useStudio((state) => state.isPanelOpen);
  return (
    <header class="topbar">
      <button type="button" class="plain home" onClick={() => void goHome()} title="All files">
        <b>llm-fsm</b> <span class="wide">studio</span>
      </button>
      <button type="button" class="plain path" onClick={() => void askFile()} title="Ctrl+O">
        {path}
        {!writable && <small> read only</small>}
        {unsaved && (
          <span class="dot" role="img" aria-label="not saved" title="Not saved">
            ●
          </span>
        )}
      </button>
      <nav class="views" aria-label="Views">
        {VIEWS.map(([name, label]) => (
          <button
            key={name}
            type="button"
            aria-current={view === name ? "page" : undefined}
            onClick={() => show(name)}
          >
            {label}
          </button>
        ))}
      </nav>
      <div class="tools" role="toolbar" aria-label="Tools">
        <button type="button" disabled={at === 0 && !holds} onClick={undo} title="Ctrl+Z">
          Undo
        </button>
        <button type="button" disabled={at >= count - 1} onClick={redo} title="Ctrl+Y">
          Redo
        </button>
        <button type="button" class="wide" onClick={() => void showHistory()}>
          Steps
        </button>
        <button type="button" class="wide" onClick={() => void find()} title="Ctrl+K">
          Find
        </button>
        <FileMenu />
        <ExportMenu />
        <button
          type="button"
          class="main"
          disabled={!unsaved || !writable}
          onClick={() => void save()}
          title="Ctrl+S"
        >
          Save
        </button>
        <button
          type="button"
          class="wide"
          aria-label="Keys"
          title="Keys (?)"
          onClick={() => void showShortcuts()}
        >
          ?
        </button>
        <button
          type="button"
          class="wide"
          aria-pressed={isPanelOpen}
          aria-label="Side panel"
          title="Show or hide the side panel"
          onClick={() => change({ isPanelOpen: !isPanelOpen })}
        >
          ◨
        </button>
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
      <button type="button" onClick={() => void addState(state)} title="N">
        Add state
      </button>
      <button type="button" onClick={() => void tidy()}>
        Tidy up{selected.length > 1 ? " selection" : ""}
      </button>
      {selected.length > 0 && (
        <>
          <button type="button" onClick={() => void duplicate(selected)} title="Ctrl+D">
            Duplicate
          </button>
          <button type="button" onClick={() => void remove(selected)} title="Del">
            Delete
          </button>
          <button type="button" class="narrow" onClick={() => openPanel("details")}>
            Details
          </button>
        </>
      )}
    </div>
  );
}

function SidePanel() {
  const panel = useStudio((state) => state.panel);
  const count = useStudio((state) => present(state)?.checked.findings.length ?? 0);
  return (
    <aside class="panel" aria-label="Side panel">
      <div class="tabs">
        <div role="tablist" aria-label="Panels">
          {PANELS.map(([name, label]) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`tab-${name}`}
              aria-selected={panel === name}
              aria-controls="panel-body"
              onClick={() => openPanel(name)}
            >
              {label}
              {name === "findings" && count > 0 && <span class="count">{count}</span>}
            </button>
          ))}
        </div>
        <button
          type="button"
          class="plain close"
          aria-label="Close the panel"
          onClick={() => change({ isPanelOpen: false })}
        >
          ×
        </button>
      </div>
      <div
        class="panel-body"
        id="panel-body"
        role="tabpanel"
        tabIndex={0}
        aria-labelledby={`tab-${panel}`}
      >
        <Suspense fallback={<p class="quiet">Opening…</p>}>
          {panel === "details" && <Details />}
          {panel === "talk" && <Talk />}
          {panel === "findings" && <Findings />}
          {panel === "tests" && <Tests />}
        </Suspense>
      </div>
    </aside>
  );
}

const counted = (count: number, what: string): string =>
  `${count} ${what}${count === 1 ? "" : "s"}`;

function Messages() {
  const notice = useStudio((state) => state.notice);
  const problem = useStudio((state) => state.problem);
  const busy = useStudio((state) => state.busy);
  const checked = useStudio((state) => present(state)?.checked);
  const isChecking = useStudio((state) => present(state)?.isUnchecked ?? false);
  const errors = checked?.findings.filter((one) => one.level === "error").length ?? 0;
  const others = (checked?.findings.length ?? 0) - errors;
  return (
    <footer class="status">
      <span role="status">{busy ? "Working…" : notice}</span>
      {problem && (
        <span role="alert" class="error">
          {problem}{" "}
          <button type="button" class="small" onClick={() => change({ problem: "" })}>
            Close
          </button>
        </span>
      )}
      {checked && (
        <button type="button" class="plain" onClick={() => openPanel("findings")}>
          {isChecking ? "Checking…" : `${counted(errors, "error")}, ${counted(others, "warning")}`}
        </button>
      )}
    </footer>
  );
}

function App() {
  const path = useStudio((state) => state.path);
  const view = useStudio((state) => state.view);
  const isPanelOpen = useStudio((state) => state.isPanelOpen);
  const [hasBegun, setBegun] = useState(false);
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
      <DraftOffer />
      <DiskNotice />
      <NoMachine />
      <div class={`work ${isPanelOpen ? "with-panel" : ""}`}>
        <main class="view" aria-label={VIEWS.find(([name]) => name === view)?.[1]}>
          <Suspense fallback={<p class="quiet">Opening…</p>}>
            {view === "canvas" && (
              <>
                <CanvasTools />
                <Canvas />
                <Invitation />
              </>
            )}
            {view === "outline" && <Outline />}
            {view === "text" && <TextView />}
            {view === "diff" && <Diff />}
          </Suspense>
        </main>
        {isPanelOpen && <SidePanel />}
      </div>
      <nav class="bottombar" aria-label="Panels">
        {PANELS.map(([name, label]) => (
          <button key={name} type="button" onClick={() => openPanel(name)}>
            {label}
          </button>
        ))}
        <button type="button" onClick={() => void find()}>
          Find
        </button>
      </nav>
      <Messages />
      <Conflict />
      <Dialogs />
    </div>
  );
}

async function begin(): Promise<void> {
  try {
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
  } catch (error) {
    tell(error);
  }
}

watchDisk();
listenToKeys();
addEventListener("beforeunload", (event) => {
  if (isUnsaved()) event.preventDefault();
});
// A server that was started again is asked at once, so that old findings do not stay.
addEventListener("online", () => void checkNow());

render(<App />, document.getElementById("app")!);
