// Pointers, conditions, merges and renamings: values in, values out.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./pure.mjs";

const { join, stepsOf, valueIn } = await load("forms/pointers.ts");
const { groupOf, logicOf, valueOf, withPart } = await load("state/conditions.ts");
const { merged } = await load("state/merge.ts");
const { idAfter, renamed, renamingsBetween, renamingsOf } = await load("state/renamings.ts");

test("a pointer keeps names with slashes and tildes", () => {
  const names = ["a/b", "~1", "", "constructor", "0"];
  assert.deepEqual(stepsOf(join("", ...names)), names);
});

test("a pointer leads to own members alone", () => {
  const document = { states: { constructor: { reply: "Hi" } }, list: ["a", "b"] };
  assert.deepEqual(valueIn(document, "/states/constructor"), { reply: "Hi" });
  assert.equal(valueIn(document, "/list/1"), "b");
  assert.equal(valueIn(document, "/states/toString"), undefined);
  assert.equal(valueIn(document, "/list/1/length"), undefined);
});

const AGE = { ">=": [{ var: "age" }, 18] };
const KNOWN = { has_context: "name" };

for (const logic of [
  AGE,
  KNOWN,
  { and: [AGE, KNOWN] },
  { or: [AGE, { and: [KNOWN, { "==": [{ var: "zip" }, "01067"] }] }] },
]) {
  test(`rows write ${JSON.stringify(logic)} as it was`, () => {
    assert.deepEqual(logicOf(groupOf(logic)), logic);
  });
}

for (const logic of [{ "!": [AGE] }, { in: ["a", "abc"] }, { "==": [1, 2] }, [AGE], 5]) {
  test(`${JSON.stringify(logic)} has no rows`, () => assert.equal(groupOf(logic), null));
}

test("no condition is an empty group, and an empty group is no condition", () => {
  assert.deepEqual(groupOf(null), { op: "and", parts: [] });
  assert.equal(logicOf(groupOf(undefined)), undefined);
});

test("a part of a group in a group is changed and taken away", () => {
  const group = groupOf({ or: [AGE, { and: [KNOWN, AGE] }] });
  const older = withPart(group, [1, 1], (row) => ({ ...row, value: 21 }));
  const wanted = { or: [AGE, { and: [KNOWN, { ">=": [{ var: "age" }, 21] }] }] };
  assert.deepEqual(logicOf(older), wanted);
  assert.deepEqual(logicOf(withPart(group, [1, 0], () => null)), { or: [AGE, AGE] });
});

for (const [text, schema, value] of [
  ["01067", { type: "string" }, "01067"],
  ["-10.5", { type: "number" }, -10.5],
  ["01067", { type: "integer" }, "01067"],
  ["true", { type: "boolean" }, true],
  ["true", { type: "string" }, "true"],
]) {
  test(`"${text}" for ${schema.type} is ${JSON.stringify(value)}`, () => {
    assert.equal(valueOf(text, schema), value);
  });
}

const BASE = { name: "bot", states: { a: { reply: "A" }, b: { reply: "B" } }, list: [1, 2] };

for (const [what, mine, theirs, gestures] of [
  ["nothing", BASE, BASE, []],
  ["what others changed", BASE, { ...BASE, name: "two" }, [["set", "/name", "two"]]],
  ["what I changed", { ...BASE, name: "two" }, BASE, []],
  ["the same change", { ...BASE, name: "two" }, { ...BASE, name: "two" }, []],
  ["two changes of one place", { ...BASE, name: "one" }, { ...BASE, name: "two" }, null],
  [
    "changes of two states",
    { ...BASE, states: { ...BASE.states, a: { reply: "AA" } } },
    { ...BASE, states: { ...BASE.states, b: { reply: "BB" } } },
    [["set", "/states/b", { reply: "BB" }]],
  ],
  [
    "a state that others removed",
    { ...BASE, states: { ...BASE.states, a: { reply: "AA" } } },
    { ...BASE, states: { a: BASE.states.a } },
    [["delete", "/states/b", undefined]],
  ],
  ["lists of two lengths", { ...BASE, list: [1] }, { ...BASE, list: [1, 2, 3] }, null],
]) {
  test(`a merge takes ${what}`, () => {
    const found = merged(BASE, mine, theirs);
    assert.deepEqual(found?.map((one) => [one.do, one.pointer, one.value]) ?? null, gestures);
  });
}

const RENAMING = { kind: "state", name: "a", to: "b/c" };

test("ids, pointers of transitions and places follow a renamed state", () => {
  assert.equal(idAfter("a", RENAMING), "b/c");
  assert.equal(idAfter("/states/a/transitions/0", RENAMING), "/states/b~1c/transitions/0");
  assert.equal(idAfter("/states/ab/transitions/0", RENAMING), "/states/ab/transitions/0");
  assert.equal(idAfter("a", { ...RENAMING, kind: "key" }), "a");
  assert.deepEqual([...renamed(new Map([["a", 1]]), [RENAMING])], [["b/c", 1]]);
});

test("gestures that rename are renamings, others are none", () => {
  const gestures = [
    { do: "rename_state", id: "a", to: "b" },
    { do: "rename_key", pointer: "/context_schema/properties/x~1y", to: "z" },
    { do: "rename_key", pointer: "/ui/x", to: "z" },
    { do: "set", pointer: "/name", value: "bot" },
  ];
  assert.deepEqual(renamingsOf(gestures), [
    { kind: "state", name: "a", to: "b" },
    { kind: "key", name: "x/y", to: "z" },
  ]);
});

test("a renaming that is undone leads back before a new one", () => {
  const [first, second] = [RENAMING, { kind: "state", name: "x", to: "y" }];
  assert.deepEqual(renamingsBetween([first], [second]), [
    { kind: "state", name: "b/c", to: "a" },
    second,
  ]);
  assert.deepEqual(renamingsBetween([first], [first, second]), [second]);
});
