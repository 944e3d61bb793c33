// What a finding's hint asks for: a correction that one gesture makes, or the field to fill in.
import type { FindingRow } from "../api/types";
import { isObject, join, stepsOf, valueIn } from "../forms/pointers";
import type { Gesture } from "./gestures";

type Hinted = Pick<FindingRow, "hint" | "message" | "name" | "pointer">;

export interface Correction {
  readonly label: string;
  readonly gesture: Gesture;
}

const quoted = (message: string, name: unknown): boolean =>
  typeof name === "string" && message.includes(JSON.stringify(name));

/** Return the correction that a hint names; null if a person has to write something. */
export function correctionOf(
  { hint, message, pointer }: Omit<Hinted, "name">,
  value: unknown,
): Correction | null {
  const meant = /did you mean (?:the [\w ]+ )?"([^"]+)"\?/.exec(hint ?? "")?.[1];
  const found = valueIn(value, pointer);
  if (meant === undefined || found === undefined) return null;
  const label = `Write “${meant}”`;
  if (quoted(message, found)) return { label, gesture: { do: "set", pointer, value: meant } };
  const key = stepsOf(pointer).at(-1);
  const owner = valueIn(value, pointer.slice(0, pointer.lastIndexOf("/")));
  if (!quoted(message, key) || !isObject(owner)) return null;
  return { label, gesture: { do: "rename_key", pointer, to: meant } };
}

/** Return the field that a hint is about: one that it names below the place of the finding, or that place. */
export function fieldOf({ hint, message, name, pointer }: Hinted, value: unknown): string {
  const tag = /^(missing-translation|unspoken-language)$/.test(name) && / in "(.+?)"/.exec(message);
  if (tag) return join("/texts", tag[1]!, pointer);
  const named = /"([a-z_][\w-]*)"/.exec(hint ?? "")?.[1];
  const isInner = named !== undefined && isObject(valueIn(value, pointer));
  return isInner ? join(pointer, named) : pointer;
}
