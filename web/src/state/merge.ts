// What two people changed in one document, put together: by places in it, not by lines.
import { isObject, join, own } from "../forms/pointers";
import type { Gesture } from "./gestures";

export const same = (one: unknown, other: unknown): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

/** Return the gestures that bring `theirs` into `mine`; null if both changed the same place. */
export function merged(
  base: unknown,
  mine: unknown,
  theirs: unknown,
  pointer = "",
): Gesture[] | null {
  if (same(theirs, base) || same(theirs, mine)) return [];
  if (same(mine, base) && pointer !== "") {
    return [
      theirs === undefined ? { do: "delete", pointer } : { do: "set", pointer, value: theirs },
    ];
  }
  const names = sharedNames(base, mine, theirs);
  if (names === null) return null;
  const found: Gesture[] = [];
  for (const name of names) {
    const [a, b, c] = [base, mine, theirs].map((one) => own(one as Record<string, unknown>, name));
    const inner = merged(a, b, c, join(pointer, name));
    if (inner === null) return null;
    found.push(...inner);
  }
  return found;
}

/** Return the names below three values of one shape; null if their parts do not belong together. */
function sharedNames(...values: readonly unknown[]): string[] | null {
  if (values.every(isObject)) return [...new Set(values.flatMap((one) => Object.keys(one)))];
  const isList = values.every(
    (one) => Array.isArray(one) && one.length === (values[0] as []).length,
  );
  return isList ? Object.keys(values[0] as []) : null;
}
