// Folded groups and hints: values in, values out.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./pure.mjs";

const { behind, foldedGraph } = await load("canvas/folding.ts");
const { correctionOf, fieldOf } = await load("state/hints.ts");

const graphOf = (ways, free = []) => {
  const names = [...new Set(ways.flat())];
  const edge = (source, target, n) => ({ id: `/${n}`, source, target });
  return {
    name: "bot",
    initial: names[0],
    nodes: names.map((id) => ({ id, kind: "converse" })),
    edges: [
      ...ways.map(([a, b], n) => edge(a, b, n)),
      ...free.map((id, n) => edge(null, id, -n - 1)),
    ],
    patterns: [],
  };
};
// a leads to b and e; b leads to c, c to d and back; d and e lead to f.
const GRAPH = graphOf([
  ["a", "b"],
  ["a", "e"],
  ["b", "c"],
  ["c", "d"],
  ["d", "c"],
  ["d", "f"],
  ["e", "f"],
]);
const drawn = ({ graph }) => [
  graph.nodes.map((one) => one.id).join(""),
  graph.edges.map((one) => `${one.source}${one.target}`).join(" "),
];

for (const [id, states] of [
  ["a", "bcdef"],
  ["b", "cd"],
  ["c", "d"],
  ["e", ""],
  ["f", ""],
]) {
  test(`only ${id} leads to "${states}"`, () => {
    assert.equal([...behind(GRAPH, id)].sort().join(""), states);
  });
}

test("a state that can be reached from everywhere is behind none", () => {
  const free = graphOf(
    [
      ["a", "b"],
      ["b", "c"],
      ["c", "d"],
    ],
    ["c"],
  );
  assert.deepEqual([...behind(free, "b")], []);
});

test("a folded state stands for what is behind it, and has its lines", () => {
  const folded = foldedGraph(GRAPH, ["b"]);
  assert.deepEqual(drawn(folded), ["abef", "ab ae bf ef"]);
  assert.deepEqual([...folded.bent], ["/5"]);
  assert.deepEqual(Object.fromEntries(folded.boxes), { c: "b", d: "b" });
});

test("a group inside a folded group is drawn by the outer one", () => {
  assert.deepEqual(drawn(foldedGraph(GRAPH, ["c", "b"])), ["abef", "ab ae bf ef"]);
});

test("nothing folded is the same graph", () => {
  assert.equal(foldedGraph(GRAPH, ["f", "gone"]).graph, GRAPH);
});

const DOCUMENT = {
  initial_state: "helo",
  states: { hello: { purpos: "Ask", transitions: [{ target_state: "by" }] } },
};
const found = (pointer, message, hint) => ({ pointer, message, hint });

for (const [what, finding, gesture] of [
  [
    "a value",
    found("/initial_state", 'there is no state "helo"', 'did you mean "hello"?'),
    { do: "set", pointer: "/initial_state", value: "hello" },
  ],
  [
    "a key",
    found("/states/hello/purpos", 'unknown key "purpos"', 'did you mean "purpose"?'),
    { do: "rename_key", pointer: "/states/hello/purpos", to: "purpose" },
  ],
  [
    "a kind of name",
    found("/states/hello/transitions/0/target_state", 'no "by"', 'did you mean the state "bye"?'),
    { do: "set", pointer: "/states/hello/transitions/0/target_state", value: "bye" },
  ],
  ["a part of a text", found("/states/hello/purpos", 'no key "x"', 'did you mean "y"?'), null],
  ["what is to be written", found("/states/hello", "no purpose", 'write a "purpose"'), null],
  ["no hint", found("/states/hello", "no purpose", null), null],
]) {
  test(`the hint about ${what} is ${gesture ? "a correction" : "no correction"}`, () => {
    assert.deepEqual(correctionOf(finding, DOCUMENT)?.gesture ?? null, gesture);
  });
}

test("a hint leads to the field that it names, or to its place", () => {
  const hint = 'write a "purpose"';
  assert.equal(fieldOf(found("/states/hello", "", hint), DOCUMENT), "/states/hello/purpose");
  assert.equal(fieldOf(found("/initial_state", "", hint), DOCUMENT), "/initial_state");
});
