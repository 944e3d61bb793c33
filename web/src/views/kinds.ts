// One name for each kind of state, in all views.
const KINDS: ReadonlyMap<string, string> = new Map([
  ["converse", "talks"],
  ["decide", "decides"],
  ["task", "works"],
  ["subflow", "sub-flow"],
  ["wait", "waits"],
  ["final", "ends"],
  ["unknown", "missing"],
]);

export const kindWords = (kind: string): string => KINDS.get(kind) ?? kind;
