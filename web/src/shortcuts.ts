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

interface Shortcut {
  readonly keys: readonly string[];
  readonly words: string;
  readonly scope: Scope;
  readonly run: (state: string) => unknown;
}

const selected = (): readonly string[] => getState().selected;
const allStates = (): string[] => nodes().map((one) => one.id);

const SHORTCUTS: readonly Shortcut[] = [
  { keys: ["Mod+s"], words: "Save", scope: "page", run: () => save() },
  { keys: ["Mod+o"], words: "Open a file", scope: "page", run: askFile },
  { keys: ["Mod+k"], words: "Find a state or a transition", scope: "page", run: find },
  { keys: ["Mod+z"], words: "Undo", scope: "document", run: undo },
  { keys: ["Mod+y", "Mod+Shift+z"], words: "Redo", scope: "document", run: redo },
  { keys: ["1"], words: "Show the canvas", scope: "machine", run: () => show("canvas") },
  { keys: ["2"], words: "Show the outline", scope: "machine", run: () => show("outline") },
  { keys: ["3"], words: "Show the text", scope: "machine", run: () => show("text") },
  { keys: ["a"], words: "Ask for a value, in a new state", scope: "machine", run: () => askFor() },
  {
    keys: ["r"],
    words: "Read values back and confirm, in a new state",
    scope: "machine",
    run: () => confirmStep(),
  },
  {
    keys: ["n"],
    words: "Add a state behind the selected one",
    scope: "machine",
    run: (state) => addState(state || null),
  },
  { keys: ["c"], words: "Connect the state", scope: "state", run: connect },
  { keys: ["F2"], words: "Rename the state", scope: "state", run: (state) => rename(state) },
  { keys: ["Mod+c"], words: "Copy states", scope: "machine", run: () => undefined },
  { keys: ["Mod+v"], words: "Paste states", scope: "machine", run: () => undefined },
  { keys: ["Mod+d"], words: "Duplicate", scope: "machine", run: () => duplicate(selected()) },
  { keys: ["Mod+a"], words: "Select all states", scope: "machine", run: () => select(allStates()) },
  {
    keys: ["Delete", "Backspace"],
    words: "Delete what is selected",
    scope: "machine",
    run: () => remove(selected()),
  },
  { keys: ["?"], words: "Show this list", scope: "document", run: () => showShortcuts() },
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
    ...SHORTCUTS.map(({ keys, words }) => ({
      value: words,
      label: keys.map(shown).join(" or "),
      hint: words,
    })),
    ...OTHERS.map(([keys, words]) => ({ value: words, label: keys, hint: words })),
  ]);

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

function works({ scope, keys }: Shortcut, event: KeyboardEvent, state: string): boolean {
  if (scope === "page") return true;
  const isUndo = keys[0]!.startsWith("Mod");
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
  const found = SHORTCUTS.find((one) => one.keys.includes(pressed));
  const [id = ""] = selected();
  const state = selected().length === 1 && !isEdge(id) ? id : "";
  // The browser's own copy and paste bring their events.
  if (!found || pressed === "Mod+c" || pressed === "Mod+v" || !works(found, event, state)) return;
  event.preventDefault();
  void found.run(state);
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
