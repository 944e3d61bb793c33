// The keys of the page: one table, from which they work and from which their list is shown.
import { addState, connect, copy, duplicate, find, paste, remove, rename } from "./state/actions";
import { save } from "./state/files";
import { redo, show, undo } from "./state/gestures";
import { isEdge, nodes } from "./state/machine";
import { askFor, confirmStep } from "./state/steps";
import { getState, select } from "./state/store";
import { askFile } from "./views/FileMenu";
import { showPage } from "./views/dialogs";

/** Where a key works: everywhere; not in fields of others than the document; in the machine; with one state. */
type Scope = "page" | "document" | "machine" | "state";

type Shortcut = readonly [
  scope: Scope,
  words: string,
  run: (state: string) => unknown,
  ...keys: string[],
];

const selected = (): readonly string[] => getState().selected;
const allStates = (): string[] => nodes().map((one) => one.id);
const nothing = () => undefined;

const SHORTCUTS: readonly Shortcut[] = [
  ["page", "Save", () => save(), "Mod+s"],
  ["page", "Open a file", askFile, "Mod+o"],
  ["page", "Find a state or a transition", find, "Mod+k"],
  ["document", "Undo", undo, "Mod+z"],
  ["document", "Redo", redo, "Mod+y", "Mod+Shift+z"],
  ["machine", "Show the canvas", () => show("canvas"), "1"],
  ["machine", "Show the outline", () => show("outline"), "2"],
  ["machine", "Show the text", () => show("text"), "3"],
  ["machine", "Ask for a value, in a new state", () => askFor(), "a"],
  ["machine", "Read values back and confirm, in a new state", () => confirmStep(), "r"],
  ["machine", "Add a state behind the selected one", (state) => addState(state || null), "n"],
  ["state", "Connect the state", connect, "c"],
  ["state", "Rename the state", (state) => rename(state), "F2"],
  ["machine", "Copy states", nothing, "Mod+c"],
  ["machine", "Paste states", nothing, "Mod+v"],
  ["machine", "Duplicate", () => duplicate(selected()), "Mod+d"],
  ["machine", "Select all states", () => select(allStates()), "Mod+a"],
  ["machine", "Delete what is selected", () => remove(selected()), "Delete", "Backspace"],
  ["document", "Show this list", () => showShortcuts(), "?"],
];

/** Keys that other parts of the page and the browser read, for the list alone. */
const OTHERS: readonly (readonly [string, string])[] = [
  ["Tab, Enter", "Go to a state or a transition, and select it"],
  ["Arrow keys", "Move the selected state; go through the outline"],
  ["Shift + drag", "Select with a box"],
  ["Escape", "Give a field back what it had; close a question"],
];

const shown = (keys: string): string =>
  keys
    .replace("Mod", "Ctrl")
    .replace(/\+([a-z])$/, (_, letter: string) => `+${letter.toUpperCase()}`);

export const showShortcuts = () =>
  showPage("Keys", [
    ...SHORTCUTS.map(([, words, , ...keys]) => rowOf(keys.map(shown).join(" or "), words)),
    ...OTHERS.map(([keys, words]) => rowOf(keys, words)),
  ]);

const rowOf = (label: string, words: string) => ({ value: words, label, hint: words });

function keysOf(event: KeyboardEvent): string {
  const isLetter = /^[a-z]$/i.test(event.key);
  const parts = [
    event.ctrlKey || event.metaKey ? "Mod" : "",
    event.shiftKey && isLetter ? "Shift" : "",
    isLetter ? event.key.toLowerCase() : event.key,
  ];
  return parts.filter(Boolean).join("+");
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Fields of the document have its undo; all others have the browser's. */
const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.dataset["field"] !== undefined;

function works([scope, , , key = ""]: Shortcut, event: KeyboardEvent, state: string): boolean {
  if (scope === "page") return true;
  const isUndo = key.startsWith("Mod");
  if (scope === "document") {
    return !isTyping(event.target) || (isUndo && isField(event.target));
  }
  const { view } = getState();
  const isMachine = view === "canvas" || view === "outline";
  return isMachine && !isTyping(event.target) && (scope === "machine" || state !== "");
}

function onKey(event: KeyboardEvent): void {
  if (getState().path === null || document.querySelector("dialog[open]")) return;
  const pressed = keysOf(event);
  const found = SHORTCUTS.find(([, , , ...keys]) => keys.includes(pressed));
  const [id = ""] = selected();
  const state = selected().length === 1 && !isEdge(id) ? id : "";
  // The browser's own copy and paste bring their events.
  if (!found || pressed === "Mod+c" || pressed === "Mod+v" || !works(found, event, state)) return;
  event.preventDefault();
  void found[2](state);
}

const isInMachine = (event: Event): boolean => {
  const { path, view } = getState();
  return !isTyping(event.target) && path !== null && (view === "canvas" || view === "outline");
};

function onCopy(event: ClipboardEvent): void {
  if (isInMachine(event) && !getSelection()?.toString()) copy(selected());
}

function onPaste(event: ClipboardEvent): void {
  if (isInMachine(event)) void paste(event.clipboardData?.getData("text/plain"));
}

export function listenToKeys(): void {
  addEventListener("keydown", onKey);
  addEventListener("copy", onCopy);
  addEventListener("paste", onPaste);
}
