// The page: files, the three views of one document, and the panel beside them.
import { render } from "preact";
import { Suspense, lazy } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { api } from "./api/client";
import { warmUp } from "./canvas/layout";
import type { ExportBody } from "./api/types";
import {
  addState,
  connect,
  copy,
  duplicate,
  find,
  isEdge,
  leaveUnsaved,
  paste,
  remove,
  rename,
  tidy,
} from "./state/actions";
import { takeSchema } from "./state/schema";
import {
  type Panel,
  type View,
  change,
  checkNow,
  discardDraft,
  getState,
  goTo,
  isUnsaved,
  openFile,
  openPanel,
  present,
  redo,
  refreshFiles,
  save,
  say,
  select,
  show,
  takeDisk,
  takeDraft,
  tell,
  undo,
  useStudio,
} from "./state/studio";
import { Details } from "./views/Details";
import { Dialogs, type Option, askChoice } from "./views/dialogs";
import { Findings } from "./views/Findings";
import Outline from "./views/Outline";
import { Start } from "./views/Start";
import { Tests } from "./views/Tests";
import "./style.css";

const Canvas = lazy(() => import("./canvas/Canvas"));
const TextView = lazy(() => import("./views/TextView"));
const Diff = lazy(() => import("./views/Diff"));
const Talk = lazy(() => import("./talk/Talk"));

type ExportForm = ExportBody["form"];

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
const EXPORTS: readonly [ExportForm, string][] = [
  ["python", "Python"],
  ["mermaid", "Mermaid"],
  ["svg", "SVG picture"],
  ["png", "PNG picture"],
  ["procedure", "Procedure in words"],
  ["json", "JSON"],
];

async function exportAs(form: ExportForm): Promise<void> {
  const now = present();
  const { path } = getState();
  if (!now || path === null) return;
  try {
    const made = await api.export({ path, text: now.text, form });
    const bytes = made.base64
      ? Uint8Array.from(atob(made.base64), (one) => one.charCodeAt(0))
      : (made.text ?? "");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes], { type: made.media_type }));
    link.download = made.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    say(`Exported ${made.name}`);
  } catch (error) {
    tell(error);
  }
}

function fileOptions(): Option[] {
  const files = getState().listing?.files ?? [];
  return files
    .filter((one) => one.kind !== "layout")
    .map((one) => ({ value: one.path, label: one.path, hint: one.kind }));
}

async function askFile(): Promise<void> {
  const newer = refreshFiles().then(fileOptions);
  const chosen = await askChoice("Open a file", "Name", fileOptions(), newer);
  if (chosen === null) return;
  if (isUnsaved() && !(await leaveUnsaved())) return;
  await openFile(chosen);
}

async function goHome(): Promise<void> {
  if (isUnsaved() && !(await leaveUnsaved())) return;
  change({ path: null, versions: [], at: 0, selected: [], notice: "", problem: "" });
  const address = new URL(location.href);
  address.searchParams.delete("file");
  history.replaceState(null, "", address);
  await refreshFiles();
}

async function showHistory(): Promise<void> {
  const { versions, at, savedText } = getState();
  const rows = versions.map((one, index) => {
    const marks = [index === at ? "now" : "", one.text === savedText ? "saved" : ""];
    const hint = marks.filter(Boolean).join(", ");
    return { value: String(index), label: `${index}. ${one.label}`, hint };
  });
  const chosen = await askChoice("Steps", "Go to a step", rows.reverse());
  if (chosen !== null) goTo(Number(chosen));
}

function Top() {
  const path = useStudio((state) => state.path);
  const view = useStudio((state) => state.view);
  const at = useStudio((state) => state.at);
  const count = useStudio((state) => state.versions.length);
  const unsaved = useStudio(isUnsaved);
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
        <button type="button" disabled={at === 0} onClick={undo} title="Ctrl+Z">
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
        <select
          aria-label="Export"
          class="wide"
          value=""
          onChange={(event) => {
            const form = event.currentTarget.value as ExportForm;
            event.currentTarget.value = "";
            void exportAs(form);
          }}
        >
          <option value="">Export</option>
          {EXPORTS.map(([form, label]) => (
            <option key={form} value={form}>
              {label}
            </option>
          ))}
        </select>
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

function Conflict() {
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
        <button type="button" onClick={() => change({ conflict: null })}>
          Go on editing
        </button>
      </div>
    </div>
  );
}

function DraftOffer() {
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
      <div class={`work ${isPanelOpen ? "with-panel" : ""}`}>
        <main class="view" aria-label={VIEWS.find(([name]) => name === view)?.[1]}>
          <Suspense fallback={<p class="quiet">Opening…</p>}>
            {view === "canvas" && (
              <>
                <CanvasTools />
                <Canvas />
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

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

function onKey(event: KeyboardEvent): void {
  if (getState().path === null || document.querySelector("dialog[open]")) return;
  const key = event.key.toLowerCase();
  const isMod = event.ctrlKey || event.metaKey;
  const run = (work: () => unknown) => {
    event.preventDefault();
    work();
  };
  if (isMod && key === "s") return run(() => save());
  if (isMod && key === "o") return run(askFile);
  if (isMod && key === "k") return run(find);
  if (isTyping(event.target)) return;
  if (isMod && key === "z") return run(event.shiftKey ? redo : undo);
  if (isMod && key === "y") return run(redo);
  const { selected, view } = getState();
  if (view !== "canvas" && view !== "outline") return;
  if (isMod && key === "d") return run(() => duplicate(selected));
  if (isMod && key === "a" && view === "canvas") {
    return run(() => select(present()?.checked.graph.nodes.map((one) => one.id) ?? []));
  }
  if (isMod) return;
  if (key === "delete" || key === "backspace") return run(() => remove(selected));
  const one = selected.length === 1 && !isEdge(selected[0]!) ? selected[0]! : null;
  if (key === "n") return run(() => addState(one));
  if (key === "c" && one !== null) return run(() => connect(one));
  if (key === "f2" && one !== null) return run(() => rename(one));
}

function onCopy(event: ClipboardEvent): void {
  if (isTyping(event.target) || getSelection()?.toString()) return;
  if (getState().view === "canvas" || getState().view === "outline") copy(getState().selected);
}

function onPaste(event: ClipboardEvent): void {
  if (isTyping(event.target) || getState().path === null) return;
  if (getState().view === "canvas" || getState().view === "outline") {
    void paste(event.clipboardData?.getData("text/plain"));
  }
}

addEventListener("keydown", onKey);
addEventListener("copy", onCopy);
addEventListener("paste", onPaste);
addEventListener("beforeunload", (event) => {
  if (isUnsaved()) event.preventDefault();
});
// A server that was started again is asked at once, so that old findings do not stay.
addEventListener("online", () => void checkNow());

render(<App />, document.getElementById("app")!);
