// Lines between states: dagre's own points as long as both ends are where dagre put them, else a way around boxes.
import type { Positions } from "../state/store";
import { HEIGHT, WIDTH, type LaidOut, type Point, type Route } from "./layout";

const GAP = 22;

/** Return the drawn path of points, with rounded corners. Wide rounding would lead lines through boxes. */
export function pathOf(points: readonly Point[]): string {
  const last = points[points.length - 1]!;
  let path = `M${written(points[0]!)}`;
  for (let n = 1; n < points.length - 1; n += 1) {
    const here = points[n]!;
    const before = towards(here, points[n - 1]!);
    const after = towards(here, points[n + 1]!);
    path += `L${written(before)}Q${written(here)} ${written(after)}`;
  }
  return `${path}L${written(last)}`;
}

const RADIUS = 22;

/** Return the point on the way from a corner to its neighbour at which the rounding ends. */
function towards(corner: Point, other: Point): Point {
  const [dx, dy] = [other.x - corner.x, other.y - corner.y];
  const length = Math.hypot(dx, dy);
  const part = length === 0 ? 0 : Math.min(RADIUS / length, 0.5);
  return { x: corner.x + dx * part, y: corner.y + dy * part };
}

const written = (point: Point) => `${round(point.x)},${round(point.y)}`;
const round = (value: number) => Math.round(value * 10) / 10;

interface Ends {
  readonly id: string;
  readonly source: string;
  readonly target: string;
}

/** Find the routes of all edges. `dagre`: the last layout, of which unmoved edges keep their line. */
export function routesOf(
  edges: readonly Ends[],
  positions: Positions,
  dagre: LaidOut | null,
): Map<string, Route> {
  const made = new Map<string, Route>();
  const boxes = [...positions.values()];
  const beside = new Map<string, number>();
  for (const edge of edges) {
    const from = positions.get(edge.source);
    const to = positions.get(edge.target);
    if (!from || !to) continue;
    const kept = dagre && unmoved(edge, from, to, dagre);
    if (kept) {
      made.set(edge.id, kept);
      continue;
    }
    const pair = `${edge.source}\u0000${edge.target}`;
    const index = beside.get(pair) ?? 0;
    beside.set(pair, index + 1);
    made.set(
      edge.id,
      edge.source === edge.target ? loop(from, index) : way(from, to, index, boxes),
    );
  }
  return made;
}

function unmoved(edge: Ends, from: Point, to: Point, dagre: LaidOut): Route | null {
  const route = dagre.routes.get(edge.id);
  const a = dagre.positions.get(edge.source);
  const b = dagre.positions.get(edge.target);
  if (!route || !a || !b) return null;
  const dx = from.x - a.x;
  const dy = from.y - a.y;
  // A line may be shifted as a whole, but not bent.
  if (Math.abs(to.x - b.x - dx) > 1 || Math.abs(to.y - b.y - dy) > 1) return null;
  if (dx === 0 && dy === 0) return route;
  const shift = (point: Point) => ({ x: point.x + dx, y: point.y + dy });
  return { points: route.points.map(shift), label: shift(route.label) };
}

function loop(box: Point, index: number): Route {
  const out = 34 + index * 24;
  const x = box.x + WIDTH / 2;
  const points = [
    { x: x + 40, y: box.y },
    { x: x + 40, y: box.y - out },
    { x: x - 40, y: box.y - out },
    { x: x - 40, y: box.y },
  ];
  return { points, label: { x, y: box.y - out } };
}

function way(from: Point, to: Point, index: number, boxes: readonly Point[]): Route {
  const start = { x: from.x + WIDTH, y: from.y + HEIGHT / 2 };
  const end = { x: to.x, y: to.y + HEIGHT / 2 };
  const bend = index * 26;
  if (end.x >= start.x + 30) {
    const direct = [
      start,
      { x: start.x + 20, y: start.y + bend },
      { x: end.x - 20, y: end.y + bend },
      end,
    ];
    if (!isBlocked(direct, from, to, boxes)) return withLabel(direct);
    return detour(start, end, from, to, boxes, bend);
  }
  return detour(start, end, from, to, boxes, bend);
}

/** Go above or below everything that lies between, by whichever is nearer. */
function detour(
  start: Point,
  end: Point,
  from: Point,
  to: Point,
  boxes: readonly Point[],
  bend: number,
): Route {
  const left = Math.min(start.x, end.x) - GAP * 2;
  const right = Math.max(start.x, end.x) + GAP * 2;
  let top = Math.min(from.y, to.y);
  let bottom = Math.max(from.y, to.y) + HEIGHT;
  const between = boxes.filter((box) => box.x < right && box.x + WIDTH > left);
  for (let isGrowing = true; isGrowing;) {
    isGrowing = false;
    for (const box of between) {
      const near = box.y < bottom + GAP * 2 && box.y + HEIGHT > top - GAP * 2;
      if (!near) continue;
      if (box.y < top) {
        top = box.y;
        isGrowing = true;
      }
      if (box.y + HEIGHT > bottom) {
        bottom = box.y + HEIGHT;
        isGrowing = true;
      }
    }
  }
  const middle = (start.y + end.y) / 2;
  const isBelow = bottom - middle <= middle - top;
  const y = isBelow ? bottom + GAP + bend : top - GAP - bend;
  const points = [
    start,
    { x: start.x + GAP, y: start.y },
    { x: start.x + GAP, y },
    { x: (start.x + end.x) / 2, y },
    { x: end.x - GAP, y },
    { x: end.x - GAP, y: end.y },
    end,
  ];
  return { points, label: { x: (start.x + end.x) / 2, y } };
}

function withLabel(points: readonly Point[]): Route {
  const a = points[1]!;
  const b = points[points.length - 2]!;
  return { points, label: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 } };
}

function isBlocked(
  points: readonly Point[],
  from: Point,
  to: Point,
  boxes: readonly Point[],
): boolean {
  const [a, b] = [points[1]!, points[points.length - 2]!];
  const low = Math.min(a.y, b.y) - 6;
  const high = Math.max(a.y, b.y) + 6;
  for (const box of boxes) {
    const isEnd = (box.x === from.x && box.y === from.y) || (box.x === to.x && box.y === to.y);
    if (isEnd || box.x > b.x || box.x + WIDTH < a.x) continue;
    if (box.y > high || box.y + HEIGHT < low) continue;
    for (let step = 0; step <= 16; step += 1) {
      const x = a.x + ((b.x - a.x) * step) / 16;
      const y = a.y + ((b.y - a.y) * step) / 16;
      const inside = x > box.x - 4 && x < box.x + WIDTH + 4;
      if (inside && y > box.y - 6 && y < box.y + HEIGHT + 6) return true;
    }
  }
  return false;
}
