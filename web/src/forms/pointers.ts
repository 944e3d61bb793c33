// JSON pointers (RFC 6901).
export const escapeStep = (name: string | number): string =>
  String(name).replace(/~/g, "~0").replace(/\//g, "~1");

export const join = (pointer: string, ...names: (string | number)[]): string =>
  [pointer, ...names.map(escapeStep)].join("/");

export const stepsOf = (pointer: string): string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"));

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Return a member that an object has itself. A key may be called `constructor`. */
export const own = <V>(object: Readonly<Record<string, V>>, name: string): V | undefined =>
  Object.hasOwn(object, name) ? object[name] : undefined;

/** Return the value at a pointer; undefined where there is none. */
export function valueIn(document: unknown, pointer: string): unknown {
  let value = document;
  for (const name of stepsOf(pointer)) {
    if (typeof value !== "object" || value === null) return undefined;
    value = own(value as Record<string, unknown>, name);
  }
  return value;
}
