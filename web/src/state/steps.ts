// Whole steps of a conversation, each made by one gesture: a question with its key, and a read-back with yes and no.
import { freePlace } from "../canvas/layout";
import type { Point } from "../canvas/shapes";
import { isObject, join } from "../forms/pointers";
import { contextKeys, valueAt } from "../forms/values";
import { askForm } from "../views/dialogs";
import { reveal } from "./actions";
import { type Gesture, gesture, readExpression, settle } from "./gestures";
import { freeName, idOf, isEdge, nodes, placed, titleOf } from "./machine";
import { getState, tell } from "./store";

/** Return the gesture that adds a key to the context. */
export function keyGesture(key: string, schema: Record<string, unknown>): Gesture {
  const pointer = "/context_schema";
  const properties = `${pointer}/properties`;
  if (!isObject(valueAt(pointer))) {
    const value = { type: "object", properties: { [key]: schema } };
    return { do: "set", pointer, value };
  }
  if (!isObject(valueAt(properties)))
    return { do: "set", pointer: properties, value: { [key]: schema } };
  return { do: "set", pointer: join(properties, key), value: schema };
}

/** Return the state that a new step follows: the one that is selected. */
function before(): string | null {
  const { selected } = getState();
  const [id] = selected;
  return selected.length === 1 && id !== undefined && !isEdge(id) ? id : null;
}

const listed = (text: string): string[] =>
  text
    .split(/[,\n]/)
    .map((one) => one.trim())
    .filter((one) => one !== "");

/** The kinds of answers, with what their schema says. */
const ANSWERS: Readonly<Record<string, Record<string, unknown>>> = {
  text: { type: "string" },
  "whole number": { type: "integer" },
  number: { type: "number" },
  "yes or no": { type: "boolean" },
  date: { type: "string", format: "date" },
  "e-mail": { type: "string", format: "email" },
  "one of some values": { type: "string" },
};
const ONE_OF = "one of some values";

/** Ask for one value: its key, the question for it, its type and a check, in one step. */
export async function askFor(at?: Point): Promise<void> {
  await settle();
  const after = before();
  const given = await askForm("Ask for …", "Add", [
    { name: "title", label: "What for", hint: "Book title", required: true },
    { name: "question", label: "Question", hint: "Which book do you look for?", required: true },
    { name: "key", label: "Key of the context", hint: "made from the first field" },
    { name: "kind", label: "Answer", options: Object.keys(ANSWERS) },
    { name: "values", label: "Values", hint: "Centre, North, South", when: ["kind", ONE_OF] },
    { name: "check", label: "Check", hint: "pages >= 1 and pages <= 900" },
    { name: "refused", label: "What to say if the check fails", when: ["check"] },
  ]);
  if (given === null) return;
  const { title = "", question = "", kind = "text", check = "" } = given;
  const name = title.toLowerCase();
  const key = idOf(given["key"] || name, "value");
  const schema: Record<string, unknown> = { ...ANSWERS[kind], title };
  if (kind === ONE_OF) schema["enum"] = listed(given["values"] ?? "");
  try {
    const logic = await readExpression(check);
    if (check) schema["x-valid"] = [{ description: given["refused"] || check, logic }];
  } catch (error) {
    tell(`The check: ${(error as Error).message}`);
    return;
  }
  const id = freeName(idOf(name));
  const value = { purpose: question, required_context_keys: [key], transitions: [] };
  const isNew = !contextKeys().includes(key);
  const made = await gesture(
    `Ask for ${title}`,
    [...(isNew ? [keyGesture(key, schema)] : []), ...placed(id, value, after)],
    new Map([[id, at ?? freePlace(after)]]),
  );
  if (made) reveal(id);
}

const AN_END = "an end of its own";
const NOT_DONE = "All right, nothing was done.";

/** Read values back and ask for a yes, in one step: the read-back, the end behind the yes, and the way of a no. */
export async function confirmStep(at?: Point): Promise<void> {
  await settle();
  const after = before();
  const asking = nodes().filter((one) => one.keys.length > 0);
  const keys = [...new Set(asking.flatMap((one) => one.keys))];
  const shown = keys.map((key) => `${titleOf(key)}: {{ ${key} }}`).join(", ");
  const readBack = `${shown}. Is that right?`;
  const given = await askForm("Confirm …", "Add", [
    { name: "keys", label: "Values to read back", value: keys.join(", "), required: true },
    { name: "reply", label: "Read-back", value: readBack, required: true, isLong: true },
    { name: "yes", label: "After a yes, say", value: "Thank you. It is done.", required: true },
    { name: "no", label: "After a no, go to", options: [...asking.map((one) => one.id), AN_END] },
    { name: "end", label: "After a no, say", value: NOT_DONE, when: ["no", AN_END] },
  ]);
  if (given === null) return;
  const [id, done] = [freeName("confirm"), freeName("done")];
  const no = given["no"] === AN_END ? freeName("not_done") : given["no"]!;
  const yesWords = "The user clearly says yes to what was read back";
  const transitions = [
    { target_state: done, description: yesWords, agrees: true },
    { target_state: no, description: "The user says no, or wants another value" },
  ];
  const [reply, confirms] = [given["reply"]!, listed(given["keys"]!)];
  const value = { purpose: "Is that right?", reply, confirms, transitions };
  const gestures = [
    ...placed(id, value, after),
    addEnd(done, given["yes"]!, id),
    ...(given["no"] === AN_END ? [addEnd(no, given["end"]!, done)] : []),
  ];
  const spot = at ?? freePlace(after);
  if (await gesture("Confirm", gestures, new Map([[id, spot]]))) reveal(id);
}

const addEnd = (id: string, reply: string, after: string): Gesture => ({
  do: "add_state",
  id,
  value: { kind: "final", reply },
  after,
});
