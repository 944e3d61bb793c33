// Lines, crossings and changes of the picture: values in, values out.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./pure.mjs";

const { changesOf } = await load("canvas/changes.ts");
const { crossingsOf, isOver } = await load("canvas/crossings.ts");
const { pathOf, routeOf } = await load("canvas/route.ts");
const { HEIGHT, WIDTH } = await load("canvas/shapes.ts");

const line = (...points) => ({ points: points.map(([x, y]) => ({ x, y })) });
const crossings = (...lines) => crossingsOf({ routes: new Map(lines.entries()) });

test("lines cross where they meet inside, not at their ends", () => {
  const falling = line([0, 0], [10, 10]);
  assert.equal(crossings(falling, line([0, 10], [10, 0])), 1);
  assert.equal(crossings(falling, line([10, 10], [20, 0])), 0);
  assert.equal(crossings(falling, line([0, 4], [4, 0], [8, 4], [4, 8])), 2);
});

test("a line lies over a box that it enters or passes through", () => {
  const box = { left: 10, top: 10, right: 20, bottom: 20 };
  assert.equal(isOver(line([0, 15], [15, 15]), box), true);
  assert.equal(isOver(line([0, 15], [30, 15]), box), true);
  assert.equal(isOver(line([0, 25], [30, 25]), box), false);
});

test("a path begins and ends at its points, and rounds its corners", () => {
  const path = pathOf(line([0, 0], [100, 0], [100, 100]).points);
  assert.equal(path, "M0,0L78,0Q100,0 100,22L100,100");
});

const EDGE = { id: "/e", source: "a", target: "b" };
const label = { x: 50, y: 50, width: 20, height: 10 };

test("a line without a layout joins the sides that look at each other", () => {
  const places = new Map([
    ["a", { x: 0, y: 0 }],
    ["b", { x: 0, y: 200 }],
  ]);
  const { points } = routeOf(EDGE, places, null);
  assert.deepEqual(points, [
    { x: WIDTH / 2, y: HEIGHT },
    { x: WIDTH / 2, y: 200 },
  ]);
  assert.equal(routeOf({ ...EDGE, target: "gone" }, places, null), null);
});

test("a line follows a state that is moved, and keeps its other end", () => {
  const positions = new Map([
    ["a", { x: 0, y: 0 }],
    ["b", { x: 0, y: 200 }],
  ]);
  const route = { ...line([0, 0], [0, 100], [0, 200]), label };
  const laid = { positions, routes: new Map([["/e", route]]), direction: "TB" };
  assert.equal(routeOf(EDGE, positions, laid), route);
  const moved = new Map([...positions, ["b", { x: 80, y: 200 }]]);
  assert.deepEqual(
    routeOf(EDGE, moved, laid).points.map(({ x }) => x),
    [0, 40, 80],
  );
});

const node = (id, more = {}) => ({
  id,
  kind: "converse",
  purpose: "",
  pointer: `/states/${id}`,
  ...more,
});
const way = (source, target, number = 0, more = {}) => ({
  id: `/states/${source}/transitions/${number}`,
  pointer: `/states/${source}/transitions/${number}`,
  source,
  target,
  label: "",
  ...more,
});
const graph = (nodes, edges) => ({ name: "bot", initial: "a", nodes, edges, patterns: [] });
const marks = (before, now, places = []) =>
  Object.fromEntries(changesOf({ name: "x", graph: before, places }, now).marks);

test("two equal versions have no marks", () => {
  const same = graph([node("a"), node("b")], [way("a", "b")]);
  assert.deepEqual(marks(same, structuredClone(same)), {});
});

test("states and transitions are added, changed and removed", () => {
  const before = graph([node("a"), node("b")], [way("a", "b"), way("b", "a")]);
  const now = graph([node("a", { purpose: "Hi" }), node("c")], [way("a", "c"), way("a", "a", 1)]);
  const found = changesOf({ name: "x", graph: before, places: [] }, now);
  assert.deepEqual(Object.fromEntries(found.marks), {
    a: "changed",
    b: "removed",
    c: "added",
    "/states/a/transitions/0": "added",
    "/states/a/transitions/1": "added",
    "/removed/states/a/transitions/0": "removed",
    "/removed/states/b/transitions/0": "removed",
  });
  assert.deepEqual(
    found.graph.nodes.map((one) => one.id),
    ["a", "c", "b"],
  );
});

test("a transition that only moved in its list is the same one", () => {
  const nodes = [node("a"), node("b"), node("c")];
  const before = graph(nodes, [way("a", "b", 0), way("a", "c", 1)]);
  assert.deepEqual(marks(before, graph(nodes, [way("a", "c", 0), way("a", "b", 1)])), {});
});

test("what is different by meaning marks its state or its transition", () => {
  const same = graph([node("a"), node("ab"), node("b")], [way("a", "b")]);
  const places = ["/states/a/instructions", "/states/b/transitions/0/priority"];
  assert.deepEqual(marks(same, same, places), { a: "changed" });
  assert.deepEqual(marks(same, same, ["/states/a/transitions/0/conditions"]), {
    "/states/a/transitions/0": "changed",
  });
});
