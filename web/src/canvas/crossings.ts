// How well a picture is read: lines that cross, and lines that lie over labels.
import type { LaidOut, Point, Route } from "./shapes";

type Segment = readonly [Point, Point];

const segmentsOf = ({ points }: Route): Segment[] =>
  points.slice(1).map((point, n) => [points[n]!, point]);

const turn = (a: Point, b: Point, c: Point): number =>
  Math.sign((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x));

const cross = ([a, b]: Segment, [c, d]: Segment): boolean =>
  turn(a, b, c) * turn(a, b, d) < 0 && turn(c, d, a) * turn(c, d, b) < 0;

export function crossingsOf({ routes }: Pick<LaidOut, "routes">): number {
  const lines = [...routes.values()].map(segmentsOf);
  let count = 0;
  for (const [n, line] of lines.entries()) {
    for (const other of lines.slice(n + 1)) {
      for (const segment of line) count += other.filter((one) => cross(segment, one)).length;
    }
  }
  return count;
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Return true for a line that goes through a box. */
export function isOver(route: Route, { left, top, right, bottom }: Box): boolean {
  const corner = (x: number, y: number): Point => ({ x, y });
  const falling: Segment = [corner(left, top), corner(right, bottom)];
  const rising: Segment = [corner(left, bottom), corner(right, top)];
  const isIn = ({ x, y }: Point) => x > left && x < right && y > top && y < bottom;
  return segmentsOf(route).some(
    (one) => one.some(isIn) || cross(one, falling) || cross(one, rising),
  );
}
