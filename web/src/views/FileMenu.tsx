// What is done with the file as a whole: open, save under another name, rename, delete, export.
import { api } from "../api/client";
import type { ExportBody } from "../api/types";
import { leaveUnsaved } from "../state/actions";
import { closeFile, deleteFile, openFile, refreshFiles, renameFile, saveAs } from "../state/files";
import { settle, settledText } from "../state/gestures";
import { numbered } from "../state/machine";
import { attempt, getState, say, useStudio } from "../state/store";
import { isUnsaved } from "../state/unsaved";
import { type Option, askChoice, askText, askYes } from "./dialogs";
import { type Options, Select } from "./Select";

type ExportForm = ExportBody["form"];

const EXPORTS: readonly [ExportForm, string][] = [
  ["python", "Python"],
  ["mermaid", "Mermaid"],
  ["svg", "SVG picture"],
  ["png", "PNG picture"],
  ["procedure", "Procedure in words"],
  ["json", "JSON"],
];

const exportAs = (form: ExportForm) =>
  attempt(async () => {
    const made = await api.export({ ...(await settledText()), form });
    const bytes = made.base64
      ? Uint8Array.from(atob(made.base64), (one) => one.charCodeAt(0))
      : (made.text ?? "");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes], { type: made.media_type }));
    link.download = made.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    say(`Exported ${made.name}`);
  });

function fileOptions(): Option[] {
  const files = getState().listing?.files ?? [];
  return files
    .filter((one) => one.kind !== "layout")
    .map((one) => ({ value: one.path, label: one.path, hint: one.kind }));
}

export async function askFile(): Promise<void> {
  await settle();
  const newer = refreshFiles().then(fileOptions);
  const chosen = await askChoice("Open a file", "Name", fileOptions(), newer);
  if (chosen === null) return;
  if (isUnsaved() && !(await leaveUnsaved())) return;
  await openFile(chosen);
}

export async function goHome(): Promise<void> {
  await settle();
  if (isUnsaved() && !(await leaveUnsaved())) return;
  await closeFile();
}

const withEnding = (name: string): string => (name.endsWith(".json") ? name : `${name}.json`);

/** Return a free name beside a file. */
function besides(path: string): string {
  const known = new Set(getState().listing?.files.map((one) => one.path));
  return numbered(path, ".json", known);
}

async function askSaveAs(title: string, action: string): Promise<void> {
  const name = await askText(title, "Name of the file", besides(getState().path!), action);
  if (name !== null) await saveAs(withEnding(name));
}

async function askRename(): Promise<void> {
  const { path } = getState();
  const about = "New name. Tests and flows that name this file do not follow";
  const name = await askText("Rename the file", about, path!, "Rename");
  if (name !== null && withEnding(name) !== path) await renameFile(withEnding(name));
}

async function askDelete(): Promise<void> {
  const { path } = getState();
  const about = `${path} and the places of its states are deleted from disk. This is no step of undo.`;
  if (await askYes("Delete the file?", about, "Delete")) await deleteFile();
}

const ACTIONS: readonly [string, () => Promise<void>][] = [
  ["Open…", askFile],
  ["Save as…", () => askSaveAs("Save as", "Save")],
  ["Duplicate…", () => askSaveAs("Duplicate the file", "Duplicate")],
  ["Rename…", askRename],
  ["Delete…", askDelete],
  ["All files", goHome],
];

export function FileMenu() {
  return (
    <Menu
      label="File"
      options={ACTIONS.map(([name]) => name)}
      choose={(name) => ACTIONS.find(([one]) => one === name)?.[1]()}
    />
  );
}

export function ExportMenu() {
  const canDraw = useStudio((state) => state.settings?.can_draw ?? true);
  const shown = EXPORTS.filter(([form]) => canDraw || (form !== "svg" && form !== "png"));
  return <Menu label="Export" options={shown} choose={(form) => exportAs(form as ExportForm)} />;
}

interface MenuProps {
  readonly label: string;
  readonly options: Options;
  readonly choose: (value: string) => unknown;
}

function Menu({ label, options, choose }: MenuProps) {
  return (
    <Select
      aria-label={label}
      class="wide"
      value=""
      options={[["", label], ...options]}
      choose={(value, field) => {
        field.value = "";
        return choose(value);
      }}
    />
  );
}
