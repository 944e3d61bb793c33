// Conditions as rows and groups that people read, and as JsonLogic that the machine reads.
import { isObject } from "../forms/pointers";

export interface Row {
  readonly key: string;
  readonly op: string;
  readonly value: unknown;
}

export interface Group {
  readonly op: "and" | "or";
  readonly parts: readonly Part[];
}

export type Part = Row | Group;

export const isGroup = (part: Part): part is Group => "parts" in part;

export const OPERATORS: ReadonlyMap<string, string> = new Map([
  ["==", "is"],
  ["!=", "is not"],
  [">", "is more than"],
  [">=", "is at least"],
  ["<", "is less than"],
  ["<=", "is at most"],
  ["contains", "contains"],
  ["has_context", "is known"],
]);

/** Return JsonLogic as one group of rows and groups; null if it has other parts. */
export function groupOf(logic: unknown): Group | null {
  if (logic === undefined || logic === null) return { op: "and", parts: [] };
  const part = partOf(logic);
  if (part === null) return null;
  return isGroup(part) ? part : { op: "and", parts: [part] };
}

function partOf(logic: unknown): Part | null {
  if (!isObject(logic) || Object.keys(logic).length !== 1) return null;
  const [op, given] = Object.entries(logic)[0]!;
  if (op === "and" || op === "or") {
    if (!Array.isArray(given)) return null;
    const parts = given.map(partOf);
    return parts.every((one) => one !== null) ? { op, parts } : null;
  }
  if (op === "has_context" && typeof given === "string") return { key: given, op, value: null };
  if (!OPERATORS.has(op) || !Array.isArray(given) || given.length !== 2) return null;
  const [left, right] = given as [unknown, unknown];
  const key = isObject(left) ? left["var"] : null;
  if (typeof key !== "string" || isObject(right) || Array.isArray(right)) return null;
  return { key, op, value: right };
}

/** Return the JsonLogic of a group; undefined for an empty one. */
export function logicOf(group: Group): unknown {
  const parts = group.parts.map((one) => (isGroup(one) ? logicOf(one) : rowLogic(one)));
  const written = parts.filter((one) => one !== undefined);
  if (written.length === 0) return undefined;
  return written.length === 1 ? written[0] : { [group.op]: written };
}

const rowLogic = ({ key, op, value }: Row): unknown =>
  op === "has_context" ? { has_context: key } : { [op]: [{ var: key }, value] };

/** Return a group with another part at a place; null takes the part away. */
export function withPart(
  group: Group,
  [index, ...rest]: readonly number[],
  change: (part: Part) => Part | null,
): Group {
  const parts = group.parts.flatMap((one, n): Part[] => {
    if (n !== index) return [one];
    if (rest.length > 0 && isGroup(one)) return [withPart(one, rest, change)];
    const made = change(one);
    return made === null ? [] : [made];
  });
  return { ...group, parts };
}

/** Return the value that a text means for a key, by the key's schema. A text stays a text. */
export function valueOf(text: string, schema: Readonly<Record<string, unknown>>): unknown {
  const { type, enum: all } = schema;
  if (Array.isArray(all)) {
    const found = (all as unknown[]).find((one) => String(one) === text);
    if (found !== undefined) return found;
  }
  if (type === "string") return text;
  if (/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text)) return Number(text);
  return text === "true" || text === "false" ? text === "true" : text;
}
