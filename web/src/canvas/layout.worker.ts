import dagre from "@dagrejs/dagre";
import type { LaidOut, LayoutRequest, Point, Route } from "./layout";

const WIDTH = 216;
const HEIGHT = 72;
/** Labels have two lines at most. */
const LABEL_WIDTH = 136;
const LETTER_WIDTH = 6.4;
/** More states than this are laid out in two steps, by the transitions that lead one step on. */
const MANY = 120;
const FIRST_STEP = 100;
/** Space beside a box in which no line bends. */
const BESIDE = 12;

type Way = LayoutRequest["edges"][number];

onmessage = (event: MessageEvent<LayoutRequest>) => {
  const { number, first, nodes, edges } = event.data;
  if (nodes.length <= MANY) {
    postMessage({ number, isWhole: true, ...laidOut(nodes, edges) });
    return;
  }
  // Long lines are what makes dagre slow, and wide pictures. The page finds their ways itself.
  const steps = stepsOf(nodes, edges, first);
  const forward = edges.filter((one) => steps.get(one.to) === steps.get(one.from)! + 1);
  const near = [...steps.keys()].slice(0, FIRST_STEP);
  const known = new Set(near);
  const between = forward.filter((one) => known.has(one.from) && known.has(one.to));
  const early = laidOut(near, between);
  postMessage({ number, isWhole: false, ...early });
  const whole = laidOut([...steps.keys()], forward);
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
  const outward = new Map<string, string[]>();
  for (const { from, to } of edges) {
    const list = outward.get(from);
    if (list) list.push(to);
    else outward.set(from, [to]);
  }
  const steps = new Map<string, number>();
  const starts = first === null ? nodes : [first, ...nodes];
  for (const start of starts) {
    if (steps.has(start)) continue;
    steps.set(start, 0);
    const queue = [start];
    // The list grows while it is read; each state enters it once.
    for (const id of queue) {
      for (const next of outward.get(id) ?? []) {
        if (steps.has(next)) continue;
        steps.set(next, steps.get(id)! + 1);
        queue.push(next);
      }
    }
  }
  return steps;
}

function laidOut(nodes: readonly string[], edges: readonly Way[]): LaidOut {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({
    rankdir: "LR",
    nodesep: 36,
    ranksep: 72,
    edgesep: 24,
    marginx: 0,
    marginy: 0,
    ranker: nodes.length > MANY ? "tight-tree" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  // Dagre keeps its nodes in plain objects, where `__proto__` is no name.
  const nodeOf = (id: string) => `.${id}`;
  for (const id of nodes) graph.setNode(nodeOf(id), { width: WIDTH, height: HEIGHT });
  for (const { id, from, to, label } of edges) {
    const length = 16 + label.length * LETTER_WIDTH;
    const width = label ? Math.min(LABEL_WIDTH, length) : 24;
    const height = length > LABEL_WIDTH ? 42 : 24;
    graph.setEdge(nodeOf(from), nodeOf(to), { width, height, labelpos: "c" }, id);
  }
  dagre.layout(graph);
  const centres = new Map<string, Point>();
  const positions = new Map<string, Point>();
  for (const id of nodes) {
    const made = graph.node(nodeOf(id)) as Point;
    centres.set(id, made);
    positions.set(id, { x: Math.round(made.x - WIDTH / 2), y: Math.round(made.y - HEIGHT / 2) });
  }
  const columns = [...new Set([...centres.values()].map((one) => Math.round(one.x)))];
  const routes = new Map<string, Route>();
  for (const { id, from, to } of edges) {
    const made = graph.edge({ v: nodeOf(from), w: nodeOf(to), name: id }) as {
      points: Point[];
      x?: number;
      y?: number;
    };
    const middle = made.points[Math.floor(made.points.length / 2)]!;
    const label = { x: made.x ?? middle.x, y: made.y ?? middle.y };
    const ends = [centres.get(from)!, centres.get(to)!] as const;
    const points = from === to ? made.points : straightened(made.points, ends, columns);
    routes.set(id, { points, label });
  }
  return { positions, routes };
}

/** Let a line begin and end at the sides of its boxes, and pass each column of boxes in a straight line. */
function straightened(
  points: readonly Point[],
  [from, to]: readonly [Point, Point],
  columns: readonly number[],
): Point[] {
  const inner = points.slice(1, -1);
  const isBack = to.x < from.x;
  const side = isBack ? -1 : 1;
  // A way back uses the lower part of both sides, beside the ways on.
  const down = isBack ? HEIGHT / 4 : 0;
  const half = (WIDTH / 2) * side;
  const found: Point[] = [{ x: from.x + half, y: from.y + down }];
  found.push({ x: from.x + half + BESIDE * side, y: from.y + down });
  for (const point of inner) {
    const isInColumn = columns.some((x) => Math.abs(x - point.x) < WIDTH / 2);
    if (!isInColumn) {
      found.push(point);
      continue;
    }
    const across = half + BESIDE * side;
    found.push({ x: point.x - across, y: point.y }, { x: point.x + across, y: point.y });
  }
  found.push({ x: to.x - half - BESIDE * side, y: to.y + down });
  found.push({ x: to.x - half, y: to.y + down });
  return found;
}

const minus = (a: Point, b: Point): Point => ({ x: a.x - b.x, y: a.y - b.y });

function shifted(made: LaidOut, by: Point): LaidOut {
  const move = (point: Point): Point => ({ x: point.x + by.x, y: point.y + by.y });
  const places = [...made.positions].map(([id, at]) => [id, move(at)] as const);
  const routes = [...made.routes].map(([id, route]) => {
    return [id, { points: route.points.map(move), label: move(route.label) }] as const;
  });
  return { positions: new Map(places), routes: new Map(routes) };
}
