// Files: open, save, drafts, and what happens to them on disk.
import { ServerProblem, api } from "../api/client";
import type * as T from "../api/types";
import { dropDraft, findDraft, forget, isEmpty } from "./drafts";
import { type Gesture, gesture, settle } from "./gestures";
import { merged } from "./merge";
import {
  type Conflict,
  FRESH,
  type OldVersion,
  type Version,
  type View,
  attempt,
  busily,
  change,
  getState,
  present,
  tell,
} from "./store";
import { isUnsaved, unsavedTranslations } from "./unsaved";
import { checkNow, keepLayout, keepNow, record, unsavedRenamings } from "./versions";

export const openFile = (path: string, view?: View) =>
  busily(async () => {
    take(await api.open(path), view);
    const { path: opened, versions } = getState();
    showAddress(opened);
    if (versions[0]?.isUnchecked) void checkNow();
  });

function take(made: T.Opened, view?: View, old: OldVersion | null = null): void {
  const { path, text, checked, layout, writable, sha256: base } = made;
  const version: Version = {
    text,
    checked,
    positions: new Map(Object.entries(layout.positions ?? {})),
    folded: layout.folded ?? [],
    renamings: [],
    translations: {},
    label: "Opened",
    isUnchecked: old === null && checked.kind === "definition",
  };
  const draft = old === null ? findDraft(path, text) : null;
  const notice = `Opened ${old?.of ?? path}`;
  const shown = { view: view ?? getState().view, notice };
  const opened = { path, writable, old, base, savedText: text, versions: [version], draft };
  change({ ...FRESH, ...opened, ...shown });
  if (!checked.is_json) change({ view: "text", cursor: checked.findings[0]?.offset ?? 0 });
  else if (checked.kind !== "definition" && checked.kind !== "workflow") change({ view: "text" });
}

/** Open a version to read. It has the places of the file that it is a version of. */
export async function openVersion(path: string, text: string, old: OldVersion): Promise<void> {
  const checked = await api.check({ path, text });
  const now = old.file === null ? null : await api.open(old.file);
  const layout = now?.layout ?? { positions: {}, folded: [], sha256: null };
  take({ path, text, checked, layout, writable: false, sha256: "" }, undefined, old);
  showAddress(old.file);
}

function showAddress(path: string | null): void {
  const address = new URL(location.href);
  if (path === null) address.searchParams.delete("file");
  else address.searchParams.set("file", path);
  history.replaceState(null, "", address);
}

/** Leave the file, for the first page. */
export async function closeFile(): Promise<void> {
  change({ ...FRESH, path: null, notice: "", problem: "" });
  showAddress(null);
  await refreshFiles();
}

/** Take up what a crash left: the text, and what was in fields. */
export function takeDraft(): void {
  const now = present();
  const { draft, savedRenamings } = getState();
  if (!now || draft === null) return;
  change({ draft: null, held: new Map(draft.held) });
  forget(draft);
  const renamings = [...savedRenamings, ...draft.renamings];
  const translations = { ...now.translations, ...draft.translations };
  if (draft.text !== now.text || !isEmpty(draft.translations)) {
    record({ ...now, text: draft.text, renamings, translations, label: "Draft taken up" });
  }
  void checkNow().then(settle);
}

export function discardDraft(): void {
  const { draft } = getState();
  if (draft !== null) forget(draft);
  change({ draft: null });
}

export async function save(overwrite = false): Promise<void> {
  await settle();
  const version = present();
  const { path, base, held, old } = getState();
  if (!version || path === null) return;
  if (old !== null) {
    tell("This is a version to read. “Save as…” in the menu File keeps it under another name.");
    return;
  }
  const [wrong] = held.values();
  if (wrong !== undefined) {
    const help = "Mend it, or leave it with Escape, and save again.";
    if (wrong.fault) change({ problem: `${wrong.label}: ${wrong.fault} ${help}` });
    return;
  }
  change({ busy: true });
  try {
    const renamings = unsavedRenamings(version);
    const translations = unsavedTranslations(version);
    const body = { path, text: version.text, base, overwrite, renamings, translations };
    const saved = await api.save(body);
    takeSaved(version, saved);
    const also = saved.others.length > 0 ? `, and ${saved.others.join(", ")}` : "";
    change({ notice: `Saved ${path}${also}` });
    keepNow();
  } catch (error) {
    if (error instanceof ServerProblem && error.status === 409) {
      const conflict = (error.body["conflict"] as Conflict | undefined) ?? null;
      change({ conflict });
      if (conflict === null) tell(error);
    } else {
      tell(error);
    }
  } finally {
    change({ busy: false });
  }
}

/** Take up that a version is what is on disk. */
function takeSaved(version: Version, { path, sha256: base }: T.SavedFile): void {
  const { text: savedText, renamings: savedRenamings, translations: savedTranslations } = version;
  const saved = { savedText, savedRenamings, savedTranslations };
  change({ path, base, ...saved, conflict: null, disk: null, problem: "" });
}

/** Take the text on disk as a step of its own, so that undo brings back what was typed. */
export function takeDisk(): void {
  const now = present();
  const { conflict, savedRenamings } = getState();
  if (!now || conflict === null || conflict.text === null) return;
  const { text, sha256 } = conflict;
  change({ savedText: text, base: sha256, conflict: null, disk: null });
  record({ ...now, text, renamings: savedRenamings, label: "Version from disk taken" });
  void checkNow();
}

/** Return the gestures that bring the version on disk into the own one; null if both changed one place. */
export function mergeOf(disk: Conflict): Gesture[] | null {
  const { versions, savedText } = getState();
  const before = versions.find((one) => one.text === savedText)?.checked.value;
  try {
    return merged(before, present()?.checked.value, JSON.parse(disk.text ?? ""));
  } catch {
    return null;
  }
}

/** Bring what others wrote to disk into the own version: one step. */
export async function mergeDisk(disk: Conflict): Promise<void> {
  await settle();
  const gestures = mergeOf(disk);
  if (gestures === null || disk.text === null) {
    change({ conflict: disk });
    return;
  }
  const taken = { savedText: disk.text, base: disk.sha256, conflict: null, disk: null };
  if (gestures.length === 0) change(taken);
  else if (await gesture("Merge with the version on disk", gestures)) change(taken);
}

/** Look at the file on disk. What others wrote is taken at once if there is nothing to lose. */
async function look(): Promise<void> {
  const { path, base, busy, conflict } = getState();
  if (path === null || !base || busy || conflict || document.hidden) return;
  const found = await api.open(path).catch((error: ServerProblem) => error);
  const isOther = found instanceof ServerProblem && found.status !== 404;
  const now = getState();
  if (isOther || now.path !== path || now.base !== base || now.busy) return;
  const disk =
    found instanceof ServerProblem
      ? { text: null, sha256: null }
      : { text: found.text, sha256: found.sha256 };
  if (disk.sha256 === base) {
    if (now.disk) change({ disk: null });
  } else if (disk.text !== null && !isUnsaved()) {
    change({ conflict: disk });
    takeDisk();
    change({ notice: `${path} changed on disk, and was read again` });
  } else if (now.disk?.sha256 !== disk.sha256) {
    await settle(); // what is in fields counts when both are compared
    change({ disk });
  }
}

const PAUSE = 4_000;

/** Look at the file every few seconds, and at once when the window is turned to. */
export function watchDisk(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const again = async () => {
    clearTimeout(timer);
    const begun = performance.now();
    await look();
    // A large file is looked at less often.
    timer = setTimeout(again, Math.max(PAUSE, (performance.now() - begun) * 30));
  };
  addEventListener("focus", again);
  document.addEventListener("visibilitychange", again);
  timer = setTimeout(again, PAUSE);
}

// -- files as a whole

/** Write the own version under another name, and go on with that file. Nothing is overwritten. */
export async function saveAs(path: string): Promise<boolean> {
  await settle();
  const version = present();
  const { path: before, old } = getState();
  if (!version || before === null) return false;
  try {
    const translations = unsavedTranslations(version);
    const saved = await api.save({ path, text: version.text, base: null, translations });
    if (old === null) dropDraft(before); // a version to read has no draft, but its file may have
    takeSaved(version, saved);
    change({ writable: true, old: null, notice: `Saved ${path}` });
    showAddress(path);
    keepLayout(version);
    await refreshFiles();
    return true;
  } catch (error) {
    const isThere = error instanceof ServerProblem && error.status === 409;
    tell(isThere ? new Error(`There is a file ${path} already. Choose another name.`) : error);
    return false;
  }
}

/** Give the file another name. */
export async function renameFile(path: string): Promise<void> {
  const { path: old, base } = getState();
  if (old === null || base === null || !(await saveAs(path))) return;
  await attempt(async () => {
    await api.remove(old, base);
    await refreshFiles();
    change({ notice: `Renamed ${old} to ${path}` });
  });
}

export async function deleteFile(): Promise<void> {
  const { path, base } = getState();
  if (path === null || base === null) return;
  await attempt(async () => {
    await api.remove(path, base);
    dropDraft(path);
    await closeFile();
    change({ notice: `Deleted ${path}` });
  });
}

export const refreshFiles = () => attempt(async () => change({ listing: await api.files() }));
