// The text of the document: findings at their place, completion and hover from the schema, search.
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import {
  HighlightStyle,
  bracketMatching,
  foldGutter,
  foldKeymap,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  hoverTooltip,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import type { FindingRow } from "../api/types";
import { redo, undo } from "../state/gestures";
import { change, getState, present, useStudio } from "../state/store";
import { typed } from "../state/versions";
import { completions, describe } from "../state/schemaText";

const fromOutside = Annotation.define<boolean>();

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--code-key)" },
  { tag: tags.string, color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-value)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
]);

const run = (step: () => void) => () => {
  step();
  return true;
};

const hover = hoverTooltip((view, at) => {
  const found = describe(view.state, at);
  if (!found) return null;
  const help = { className: "code-help", textContent: found.text };
  return {
    pos: found.from,
    end: found.to,
    above: true,
    create: () => ({ dom: Object.assign(document.createElement("div"), help) }),
  };
});

function extensions() {
  return [
    lineNumbers(),
    highlightActiveLineGutter(),
    foldGutter(),
    drawSelection(),
    indentUnit.of("  "),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    json(),
    syntaxHighlighting(colours),
    autocompletion({ override: [completions] }),
    hover,
    lintGutter(),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": "Text of the definition", tabindex: "0" }),
    EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      if (update.transactions.some((one) => one.annotation(fromOutside))) return;
      typed(update.state.doc.toString());
    }),
    keymap.of([
      { key: "Mod-z", run: run(undo), preventDefault: true },
      { key: "Mod-y", run: run(redo), preventDefault: true },
      { key: "Mod-Shift-z", run: run(redo), preventDefault: true },
      ...closeBracketsKeymap,
      ...searchKeymap,
      ...foldKeymap,
      ...completionKeymap,
      ...lintKeymap,
      ...defaultKeymap,
      indentWithTab,
    ]),
  ];
}

/** Return the one replacement that makes `after` of `before`, so that cursor and folds stay. */
function replacement(before: string, after: string) {
  let from = 0;
  const most = Math.min(before.length, after.length);
  while (from < most && before.charCodeAt(from) === after.charCodeAt(from)) from += 1;
  let tail = 0;
  while (
    tail < most - from &&
    before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)
  ) {
    tail += 1;
  }
  const insert = after.slice(from, after.length - tail);
  return { from, to: before.length - tail, insert };
}

function diagnostic(found: FindingRow, length: number): Diagnostic {
  const from = Math.min(found.offset ?? 0, length);
  return {
    from,
    to: Math.min(from + 1, length),
    severity: found.level,
    source: found.name,
    message: found.hint ? `${found.message}. ${found.hint}` : found.message,
  };
}

export default function TextView() {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const { path, writable, cursor } = useStudio((state) => state);
  const { text, checked } = present() ?? { text: "" };
  const findings = checked?.findings;

  useEffect(() => {
    // CRLF stays CRLF: the document is split at the separator that the file has.
    const separator = /\r\n/.test(present()?.text ?? "") ? "\r\n" : "\n";
    const made = new EditorView({
      parent: place.current!,
      state: EditorState.create({
        doc: present()?.text ?? "",
        extensions: [EditorState.lineSeparator.of(separator), extensions()],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [path, writable]);

  useEffect(() => {
    const now = view.current;
    if (!now) return;
    const shown = now.state.doc.toString();
    // The text of this moment: letters that were typed since the page was drawn are in it, and stay.
    const wanted = present()?.text ?? "";
    if (shown === wanted) return;
    now.dispatch({ changes: replacement(shown, wanted), annotations: fromOutside.of(true) });
  }, [text, path, writable]);

  useEffect(() => {
    const now = view.current;
    if (!now || !findings) return;
    const length = now.state.doc.length;
    const marks = findings.slice(0, 1000).map((one) => diagnostic(one, length));
    marks.sort((a, b) => a.from - b.from);
    now.dispatch(setDiagnostics(now.state, marks));
  }, [findings, text, path]);

  useEffect(() => {
    const now = view.current;
    if (!now || cursor === null) return;
    const at = Math.min(cursor, now.state.doc.length);
    const effects = EditorView.scrollIntoView(at, { y: "center" });
    now.dispatch({ selection: { anchor: at }, effects });
    now.focus();
    if (getState().cursor !== null) change({ cursor: null });
  }, [cursor, path]);

  return <div class="text-view" ref={place} />;
}
