import dagre from "@dagrejs/dagre";
import {
  type Direction,
  HEIGHT,
  type LaidOut,
  type LayoutRequest,
  MANY,
  type Point,
  type Route,
  WIDTH,
  boundsOf,
  boxOf,
  movedBy,
} from "./shapes";
import { crossingsOf } from "./crossings";
import { labelSize } from "./labels";
import { grouped } from "../state/grouped";

/** A large machine is laid out in two steps, by the transitions that lead one step on. */
const FIRST_STEP = 100;
/** So many states are laid out in several ways, of which the best is taken. */
const FEW = 40;
/** A picture that is wider than this, by its height, is laid out from top to bottom. */
const WIDEST = 2.1;
const STRETCH = 2.4;
/** The distance of two lines that leave one side of a box. */
const PORT_GAP = 16;

type Way = LayoutRequest["edges"][number];
type Ranker = "network-simplex" | "tight-tree" | "longest-path";

onmessage = (event: MessageEvent<LayoutRequest>) => {
  const { number, first, nodes, edges, frame, direction } = event.data;
  if (nodes.length <= MANY) {
    postMessage({ number, isWhole: true, ...best(nodes, edges, frame, direction) });
    return;
  }
  // Long lines are what makes dagre slow, and wide pictures. They go straight.
  const steps = stepsOf(nodes, edges, first);
  const forward = edges.filter((one) => steps.get(one.to) === steps.get(one.from)! + 1);
  const near = [...steps.keys()].slice(0, FIRST_STEP);
  const known = new Set(near);
  const between = forward.filter((one) => known.has(one.from) && known.has(one.to));
  const early = laidOut(near, between, "LR", "tight-tree");
  postMessage({ number, isWhole: false, ...early });
  const whole = laidOut([...steps.keys()], forward, "LR", "tight-tree");
  // The first state keeps its place, so that the picture does not jump.
  const pin = near[0]!;
  const by = minus(early.positions.get(pin)!, whole.positions.get(pin)!);
  postMessage({ number, isWhole: true, ...shifted(whole, by) });
};

/** Return the steps from the first state to each state, the nearest first. */
function stepsOf(
  nodes: readonly string[],
  edges: readonly Way[],
  first: string | null,
): Map<string, number> {
  const outward = grouped(edges, (one) => one.from);
  const steps = new Map<string, number>();
  const starts = first === null ? nodes : [first, ...nodes];
  for (const start of starts) {
    if (steps.has(start)) continue;
    steps.set(start, 0);
    const queue = [start];
    // The list grows while it is read; each state enters it once.
    for (const id of queue) {
      for (const { to } of outward.get(id) ?? []) {
        if (steps.has(to)) continue;
        steps.set(to, steps.get(id)! + 1);
        queue.push(to);
      }
    }
  }
  return steps;
}

/** Lay out in both directions, and take what is read best: the larger picture, then the fewer crossings. */
function best(
  nodes: readonly string[],
  edges: readonly Way[],
  frame: Point,
  wanted: Direction | null,
): LaidOut {
  const rankers: readonly Ranker[] =
    nodes.length <= FEW ? ["network-simplex", "tight-tree", "longest-path"] : ["network-simplex"];
  const made = (["TB", "LR"] as const).map((direction) => {
    // A hub with many ends is flat; more room between its rows makes its lines less flat.
    const stretches = direction === "TB" && nodes.length <= FEW ? [1, STRETCH] : [1];
    const tried = rankers.flatMap((ranker) =>
      stretches.map((stretch) => laidOut(nodes, edges, direction, ranker, stretch)),
    );
    return tried.reduce((a, b) => (cost(b) < cost(a) ? b : a));
  });
  const [down, across] = made as [LaidOut, LaidOut];
  if (wanted !== null) return wanted === "TB" ? down : across;
  if (ratioOf(across) > WIDEST || ratioOf(down) > WIDEST) {
    return ratioOf(across) < ratioOf(down) ? across : down;
  }
  return zoomOf(across, frame) > zoomOf(down, frame) ? across : down;
}

function ratioOf(made: LaidOut): number {
  const { x, y } = sizeOf(made);
  return x / y;
}

/** Crossings count most, but no picture is far wider than high. Of two that are alike, the smaller one is better. */
function cost(made: LaidOut): number {
  const { x, y } = sizeOf(made);
  return crossingsOf(made) + Math.max(0, ratioOf(made) - WIDEST) * 20 + (x * y) / 1e8;
}

function zoomOf(made: LaidOut, frame: Point): number {
  const size = sizeOf(made);
  return Math.min(frame.x / size.x, frame.y / size.y);
}

/** Return width and height of a picture with its labels. */
function sizeOf({ positions, routes }: LaidOut): Point {
  const labels = [...routes.values()].map(({ label }) => boxOf(label));
  const { width, height } = boundsOf([...positions.values(), ...labels]);
  return { x: Math.max(1, width), y: Math.max(1, height) };
}

function laidOut(
  nodes: readonly string[],
  edges: readonly Way[],
  direction: Direction,
  ranker: Ranker,
  stretch = 1,
): LaidOut {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  const [nodesep, ranksep] = direction === "TB" ? [36, 52] : [32, 64];
  const room = { nodesep, ranksep: ranksep! * stretch, edgesep: 18 };
  graph.setGraph({ rankdir: direction, ...room, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  // Dagre keeps its nodes in plain objects, where `__proto__` is no name.
  const nodeOf = (id: string) => `.${id}`;
  for (const id of nodes) graph.setNode(nodeOf(id), { width: WIDTH, height: HEIGHT });
  for (const { id, from, to, label } of edges) {
    graph.setEdge(nodeOf(from), nodeOf(to), { ...labelSize(label), labelpos: "c" }, id);
  }
  dagre.layout(graph);
  const centres = new Map<string, Point>();
  const positions = new Map<string, Point>();
  for (const id of nodes) {
    const made = graph.node(nodeOf(id)) as Point;
    centres.set(id, made);
    positions.set(id, { x: Math.round(made.x - WIDTH / 2), y: Math.round(made.y - HEIGHT / 2) });
  }
  const drawn = edges.map((way) => {
    const name = { v: nodeOf(way.from), w: nodeOf(way.to), name: way.id };
    const made = graph.edge(name) as { points: Point[]; x?: number; y?: number };
    const middle = made.points[Math.floor(made.points.length / 2)]!;
    const label = { x: made.x ?? middle.x, y: made.y ?? middle.y, ...labelSize(way.label) };
    return { way, points: made.points, label };
  });
  const rows = rowsOf([...centres.values()], drawn, direction);
  const ports = portsOf(drawn, centres, direction);
  const routes = new Map<string, Route>();
  for (const { way, points, label } of drawn) {
    const ends = ports.get(way.id);
    const straight = ends ? straightened(points, ends, rows, direction) : points;
    routes.set(way.id, { points: straight, label });
  }
  return { positions, routes, direction };
}

interface Drawn {
  readonly way: Way;
  readonly points: readonly Point[];
  readonly label: Route["label"];
}

/** The coordinate along the direction of the layout, and the one across it. */
const along = (point: Point, direction: Direction) => (direction === "LR" ? point.x : point.y);
const across = (point: Point, direction: Direction) => (direction === "LR" ? point.y : point.x);
const pointOf = (main: number, cross: number, direction: Direction): Point =>
  direction === "LR" ? { x: main, y: cross } : { x: cross, y: main };

/** Return half of what boxes and labels of each row take up along the layout, by the middle of the row. */
function rowsOf(
  centres: readonly Point[],
  drawn: readonly Drawn[],
  direction: Direction,
): ReadonlyMap<number, number> {
  const rows = new Map<number, number>();
  const put = (point: Point, half: number) => {
    const main = Math.round(along(point, direction));
    rows.set(main, Math.max(half, rows.get(main) ?? 0));
  };
  for (const one of centres) put(one, (direction === "LR" ? WIDTH : HEIGHT) / 2);
  for (const { label } of drawn)
    put(label, (direction === "LR" ? label.width : label.height) / 2 + 2);
  return rows;
}

/** Return where each line begins and ends. Lines at one side of a box keep a distance. */
function portsOf(
  drawn: readonly Drawn[],
  centres: ReadonlyMap<string, Point>,
  direction: Direction,
): ReadonlyMap<string, readonly [Point, Point]> {
  const all: { key: string; id: string; isStart: boolean; towards: number }[] = [];
  const ends = new Map<string, Point[]>();
  for (const { way, points } of drawn) {
    if (way.from === way.to) continue;
    const isBack =
      along(centres.get(way.to)!, direction) < along(centres.get(way.from)!, direction);
    ends.set(way.id, []);
    for (const isStart of [true, false]) {
      const next = isStart ? points[1]! : points.at(-2)!;
      const key = JSON.stringify([isStart ? way.from : way.to, isStart === isBack]);
      all.push({ key, id: way.id, isStart, towards: across(next, direction) });
    }
  }
  const room = direction === "LR" ? HEIGHT : WIDTH;
  for (const [key, side] of grouped(all, (one) => one.key)) {
    const [id, isBefore] = JSON.parse(key) as [string, boolean];
    const centre = centres.get(id)!;
    const half = ((direction === "LR" ? WIDTH : HEIGHT) / 2) * (isBefore ? -1 : 1);
    const gap = Math.min(PORT_GAP, (room - 24) / side.length);
    const sorted = side.toSorted((a, b) => a.towards - b.towards);
    for (const [index, end] of sorted.entries()) {
      const offset = (index - (sorted.length - 1) / 2) * gap;
      const cross = across(centre, direction) + offset;
      const at = pointOf(along(centre, direction) + half, cross, direction);
      ends.get(end.id)![end.isStart ? 0 : 1] = at;
    }
  }
  return ends as unknown as ReadonlyMap<string, readonly [Point, Point]>;
}

/** Let a line pass each row of boxes and labels straight, in the room that dagre gave it there. */
function straightened(
  points: readonly Point[],
  [from, to]: readonly [Point, Point],
  rows: ReadonlyMap<number, number>,
  direction: Direction,
): Point[] {
  const side = along(to, direction) < along(from, direction) ? -1 : 1;
  const inner = points.slice(1, -1).flatMap((point) => {
    const main = along(point, direction);
    const half = (rows.get(Math.round(main)) ?? 0) * side;
    const cross = across(point, direction);
    if (half === 0) return [point];
    return [pointOf(main - half, cross, direction), pointOf(main + half, cross, direction)];
  });
  return [from, ...inner, to];
}

const minus = (a: Point, b: Point): Point => ({ x: a.x - b.x, y: a.y - b.y });

function shifted(made: LaidOut, by: Point): LaidOut {
  const move = <One extends Point>(point: One): One => movedBy(point, by.x, by.y);
  const places = [...made.positions].map(([id, at]) => [id, move(at)] as const);
  const routes = [...made.routes].map(([id, route]) => {
    return [id, { points: route.points.map(move), label: move(route.label) }] as const;
  });
  return { ...made, positions: new Map(places), routes: new Map(routes) };
}
