// Places in the document, as JSON pointers.
import { present } from "../state/studio";
import type { FindingRow } from "../api/types";

export const escapeStep = (name: string | number) =>
  String(name).replace(/~/g, "~0").replace(/\//g, "~1");

export const join = (pointer: string, ...names: (string | number)[]): string =>
  [pointer, ...names.map(escapeStep)].join("/");

export function valueAt(pointer: string): unknown {
  let value: unknown = present()?.checked.value;
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replace(/~1/g, "/").replace(/~0/g, "~");
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function findingsAt(pointer: string, isDeep = false): FindingRow[] {
  const all = present()?.checked.findings ?? [];
  return all.filter(
    (one) => one.pointer === pointer || (isDeep && one.pointer.startsWith(`${pointer}/`)),
  );
}

/** Return the keys of the context: those of the schema, for lists to pick from. */
export function contextKeys(): string[] {
  return Object.keys((valueAt("/context_schema/properties") as object | undefined) ?? {});
}
