// Places in the document, as JSON pointers.
import { present } from "../state/store";
import { valueIn } from "./pointers";
import type { FindingRow } from "../api/types";

export const valueAt = (pointer: string): unknown => valueIn(present()?.checked.value, pointer);

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
