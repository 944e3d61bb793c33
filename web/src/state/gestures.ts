// What changes the document: gestures, fields and undo, one after the other.
import { ServerProblem, api } from "../api/client";
import type * as T from "../api/types";
import { renamed, renamingsOf } from "./renamings";
import { type Held, type Positions, type View, change, getState, present, tell } from "./store";
import { unsavedTranslations } from "./unsaved";
import { translate } from "./translations";
import { goTo, keepLayout, keepNow, keepSoon, kept, record } from "./versions";

export type Gesture = T.OneGesture["gesture"];

let queue: Promise<unknown> = Promise.resolve();

/** Do one thing after the other, so that each begins from the text that the one before left. */
function next<R>(work: () => Promise<R>): Promise<R> {
  const made = queue.then(work);
  queue = made.catch(() => null);
  return made;
}

/** Make gestures. Fields that are being filled in come first. */
export const gesture = (
  label: string,
  gestures: readonly Gesture[],
  places: Positions = new Map(),
): Promise<T.Patched | null> =>
  next(async () => {
    await takeFields();
    return makeGesture(label, gestures, places).catch(() => null);
  });

async function makeGesture(
  label: string,
  gestures: readonly Gesture[],
  places: Positions,
): Promise<T.Patched | null> {
  const now = present();
  const { path } = getState();
  if (!now || path === null) return null;
  if (!now.checked.is_json) {
    change({ problem: "Mend the text first: it is not JSON.", view: "text" });
    return null;
  }
  change({ busy: true });
  try {
    const wrapped = gestures.map((one) => ({ gesture: one }));
    const translations = unsavedTranslations(now);
    const patched = await api.gestures({ path, text: now.text, translations, gestures: wrapped });
    const latest = present();
    if (getState().path !== path || !latest) return null;
    // What was typed meanwhile stays: the gesture is made again, on the newer text.
    if (latest.text !== now.text) return await makeGesture(label, gestures, places);
    const renamings = renamingsOf(gestures);
    const moves = places.size > 0 || renamings.length > 0;
    const positions = renamed(new Map([...latest.positions, ...places]), renamings);
    const graph = kept(now.checked.graph, patched.checked.graph);
    record({
      text: patched.text,
      checked: { ...patched.checked, graph },
      positions: moves ? positions : latest.positions,
      folded: latest.folded,
      renamings: [...now.renamings, ...renamings],
      translations: latest.translations,
      label,
    });
    if (moves) keepLayout(present()!);
    change({ problem: "" });
    return patched;
  } catch (error) {
    tell(error);
    // A field tells what the server refused, and waits for one that does not answer.
    if (error instanceof ServerProblem && error.status > 0) throw error;
    return null;
  } finally {
    change({ busy: false });
  }
}

const setting = (pointer: string, value: unknown): Gesture =>
  value === undefined ? { do: "delete", pointer } : { do: "set", pointer, value };

export const setValue = (label: string, pointer: string, value: unknown) =>
  gesture(label, [setting(pointer, value)]);

// -- fields: their text belongs to the document from its first letter

/** Hold the text of a field until the document takes it. */
export function hold(key: string, held: Held): void {
  change({ held: new Map(getState().held).set(key, held) });
  keepSoon();
}

/** Let the text of a field go: it is in the document, or is not wanted any more. */
export function release(...keys: readonly string[]): void {
  const held = new Map(getState().held);
  for (const key of keys) held.delete(key);
  if (held.size === getState().held.size) return;
  change({ held });
  keepSoon();
}

/** Let the document take all fields. What cannot be read stays in its field, with the reason. */
export const settle = (): Promise<void> => next(takeFields);

async function takeFields(): Promise<void> {
  for (const [key, one] of getState().held) {
    const isCurrent = () => getState().held.get(key) === one;
    if (!isCurrent()) continue;
    const told = (fault: string) => isCurrent() && hold(key, { ...one, fault, isTold: true });
    if (one.fault) {
      told(one.fault);
      continue;
    }
    if (one.form === "translation") {
      translate(one.pointer, one.value as T.Translation, one.label);
      release(key);
      continue;
    }
    try {
      const value = one.form === "expression" ? await readExpression(one.text) : one.value;
      const made = await makeGesture(one.label, [setting(one.pointer, value)], new Map());
      if (made === null) return; // the server does not answer: the text waits in its field
      if (isCurrent()) release(key);
    } catch (error) {
      told((error as Error).message);
    }
  }
}

/** Read an expression such as `age >= 18` as JsonLogic. Throws an Error with what is wrong. */
export async function readExpression(expression: string): Promise<unknown> {
  if (expression.trim() === "") return undefined;
  const found = await api.condition({ expression });
  if (found.faults.length > 0) throw new Error(found.faults.join(" "));
  return found.logic;
}

/** Return the path and the text with all that is in its fields. */
export async function settledText(): Promise<{ path: string; text: string }> {
  await settle();
  return { path: getState().path ?? "definition.json", text: present()?.text ?? "" };
}

// -- undo

/** Undo one step. The text of a field that means nothing yet is a step, too. */
export async function undo(): Promise<void> {
  await settle();
  const wrong = [...getState().held].filter(([, one]) => one.fault !== "");
  if (wrong.length === 0) {
    goTo(getState().at - 1);
    return;
  }
  release(...wrong.map(([key]) => key));
  change({ notice: `Undone: ${wrong.at(-1)![1].label}`, problem: "" });
}

export async function redo(): Promise<void> {
  await settle();
  goTo(getState().at + 1);
}

export async function jump(at: number): Promise<void> {
  await settle();
  goTo(at);
}

export function show(view: View): void {
  void settle();
  change({ view });
}

// A page that is closed or reloaded keeps what was typed last.
addEventListener("pagehide", keepNow);
