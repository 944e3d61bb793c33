// Places in the document, as JSON pointers.
import { present } from "../state/store";
import { isObject, join, valueIn } from "./pointers";
import type { FindingRow } from "../api/types";

export const valueAt = (pointer: string): unknown => valueIn(present()?.checked.value, pointer);

export function findingsAt(pointer: string, isDeep = false): FindingRow[] {
  const all = present()?.checked.findings ?? [];
  return all.filter(
    (one) => one.pointer === pointer || (isDeep && one.pointer.startsWith(`${pointer}/`)),
  );
}

/** Return what the schema says of a key of the context. */
export function keySchema(key: string): Record<string, unknown> {
  const schema = valueAt(join("/context_schema/properties", key));
  return isObject(schema) ? schema : {};
}

/** Return the keys of the context: those of the schema, for lists to pick from. */
export const contextKeys = (): string[] =>
  Object.keys((valueAt("/context_schema/properties") as object | undefined) ?? {});
