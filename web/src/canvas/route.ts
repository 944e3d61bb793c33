// Lines between states: those of the layout, which follow a state that is moved by as much as it is near.
import type { Positions } from "../state/store";
import { LABEL_WIDTH } from "./labels";
import { HEIGHT, type LaidOut, type Point, type Route, WIDTH, movedBy } from "./shapes";

const RADIUS = 22;

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
  readonly source: string | null;
  readonly target: string;
}

/** Return the line of a transition; null if one of its ends has no place yet. */
export function routeOf(edge: Ends, positions: Positions, laid: LaidOut | null): Route | null {
  const from = edge.source === null ? undefined : positions.get(edge.source);
  const to = positions.get(edge.target);
  if (!from || !to) return null;
  const made = laid?.routes.get(edge.id);
  const a = laid?.positions.get(edge.source!);
  const b = laid?.positions.get(edge.target);
  if (!made || !a || !b) return direct(from, to);
  const start = { x: from.x - a.x, y: from.y - a.y };
  const end = { x: to.x - b.x, y: to.y - b.y };
  return isZero(start) && isZero(end) ? made : bent(made, start, end);
}

const isZero = ({ x, y }: Point) => x === 0 && y === 0;

/** Move the beginning of a line with its first state, its end with the other one, and all between by their parts. */
function bent({ points, label }: Route, start: Point, end: Point): Route {
  const lengths = [0];
  for (let n = 1; n < points.length; n += 1) {
    const [a, b] = [points[n - 1]!, points[n]!];
    lengths.push(lengths[n - 1]! + Math.hypot(b.x - a.x, b.y - a.y));
  }
  const whole = lengths.at(-1) || 1;
  const between = (a: number, b: number, part: number) => a * (1 - part) + b * part;
  const move = <One extends Point>(point: One, part: number): One =>
    movedBy(point, between(start.x, end.x, part), between(start.y, end.y, part));
  const distances = points.map((one) => Math.hypot(one.x - label.x, one.y - label.y));
  // A label lies between the two points that are nearest to it.
  const nearest = [...distances.keys()].toSorted((n, m) => distances[n]! - distances[m]!);
  const part = (lengths[nearest[0]!]! + lengths[nearest[1]!]!) / 2 / whole || 0;
  return {
    points: points.map((one, n) => move(one, lengths[n]! / whole)),
    label: move(label, part),
  };
}

/** Return a straight line between the sides of two boxes that look at each other. */
function direct(from: Point, to: Point): Route {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  if (dx === 0 && dy === 0) return loop(from);
  const isAcross = Math.abs(dx) * HEIGHT > Math.abs(dy) * WIDTH;
  const [halfX, halfY] = isAcross
    ? [(Math.sign(dx) * WIDTH) / 2, 0]
    : [0, (Math.sign(dy) * HEIGHT) / 2];
  const start = { x: from.x + WIDTH / 2 + halfX, y: from.y + HEIGHT / 2 + halfY };
  const end = { x: to.x + WIDTH / 2 - halfX, y: to.y + HEIGHT / 2 - halfY };
  const middle = { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 };
  return { points: [start, end], label: { ...middle, width: LABEL_WIDTH, height: 40 } };
}

function loop(box: Point): Route {
  const x = box.x + WIDTH;
  const y = box.y + HEIGHT / 2;
  const points = [
    { x, y: y - 18 },
    { x: x + 40, y: y - 18 },
    { x: x + 40, y: y + 18 },
    { x, y: y + 18 },
  ];
  return { points, label: { x: x + 40, y, width: LABEL_WIDTH, height: 40 } };
}
