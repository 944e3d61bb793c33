// What is in the machine, and names and gestures that are made from it.
import type { GraphEdge, GraphNode } from "../api/types";
import { join } from "../forms/pointers";
import { keySchema, valueAt } from "../forms/values";
import type { Gesture } from "./gestures";
import { present } from "./store";

/** The members that name a state. */
export const TARGETS = ["target_state", "initial_state", "on_timeout", "on_exhausted"];

export const nodes = (): GraphNode[] => present()?.checked.graph.nodes ?? [];
export const edges = (): GraphEdge[] => present()?.checked.graph.edges ?? [];
export const isEdge = (id: string): boolean => id.startsWith("/");
export const isWorkflow = (): boolean => present()?.checked.kind === "workflow";

/** Return a state id that is free: the wanted one, or it with a number behind. */
export function freeName(wanted: string, taken: readonly string[] = []): string {
  const known = new Set([...nodes().map((one) => one.id), ...taken]);
  return known.has(wanted) ? numbered(wanted, "", known) : wanted;
}

/** Return a name with the first number behind it that makes it free. */
export function numbered(name: string, ending: string, known: ReadonlySet<string>): string {
  const stem = name.slice(0, name.length - ending.length).replace(/_\d+$/, "");
  let number = 2;
  while (known.has(`${stem}_${number}${ending}`)) number += 1;
  return `${stem}_${number}${ending}`;
}

const ID = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;

/** Return an id for a title: "Book title" becomes `book_title`. A title that is an id stays. */
export function idOf(title: string, otherwise = "state"): string {
  if (ID.test(title)) return title;
  const plain = title.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const joined = plain.replace(/[^a-z0-9_-]+/g, "_").replace(/^[^a-z_]+/, "");
  return joined.replace(/^_+|_+$/g, "").slice(0, 64) || otherwise;
}

/** Return the gestures that put a state behind another one; the first state of a machine begins it. */
export function placed(
  id: string,
  value: Record<string, unknown>,
  after: string | null,
): Gesture[] {
  const made: Gesture[] = [{ do: "add_state", id, value, after }];
  if (isWorkflow()) return after === null ? made : [...made, transition(after, id, {})];
  if (nodes().every((one) => one.kind === "unknown")) {
    made.push({ do: "set", pointer: "/initial_state", value: id });
  }
  if (after === null) return made;
  // The first way out of a state that asks is taken when the answer is known.
  const keys = valueAt(join("/states", after, "required_context_keys"));
  const known = Array.isArray(keys) ? keys.map(String) : [];
  const isFirst = edges().every((one) => one.source !== after);
  if (known.length === 0 || !isFirst) return [...made, transition(after, id, {})];
  const description = `Known: ${known.map(titleOf).join(", ")}`;
  const conditions = [{ requires_context_keys: known }];
  return [...made, transition(after, id, { auto: true, description, conditions })];
}

const transition = (source: string, target: string, value: Record<string, unknown>): Gesture => ({
  do: "add_transition",
  source,
  target,
  value,
});

export function titleOf(key: string): string {
  const title = keySchema(key)["title"];
  return typeof title === "string" ? title : key.replace(/_/g, " ");
}
