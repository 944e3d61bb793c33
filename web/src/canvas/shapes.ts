// Sizes and shapes of the picture, for the page and for the worker that lays it out.
import type { CanvasPoint } from "../api/types";

export const WIDTH = 216;
export const HEIGHT = 72;
/** More states than this are drawn in view alone, and laid out in two steps. */
export const MANY = 120;

export type Point = Readonly<CanvasPoint>;

/** The way of the first state to the last one: from left to right, or from top to bottom. */
export type Direction = "LR" | "TB";

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** A label: its middle, and its size. */
export type Label = Point & Size;

/** Return the place of a label as a box, by its corner. */
export const boxOf = ({ x, y, width, height }: Label): Label => ({
  x: x - width / 2,
  y: y - height / 2,
  width,
  height,
});

/** Return what boxes take up. A state has no size of its own. */
export function boundsOf(boxes: readonly (Point & Partial<Size>)[]) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width = WIDTH, height = HEIGHT } of boxes) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x + width);
    bottom = Math.max(bottom, y + height);
  }
  return { left, top, right, bottom, width: right - left, height: bottom - top };
}

export const movedBy = <One extends Point>(point: One, x: number, y: number): One => ({
  ...point,
  x: point.x + x,
  y: point.y + y,
});

/** A line as points, and its label. */
export interface Route {
  readonly points: readonly Point[];
  readonly label: Label;
}

export interface LaidOut {
  readonly positions: ReadonlyMap<string, Point>;
  readonly routes: ReadonlyMap<string, Route>;
  readonly direction: Direction;
}

export interface LayoutRequest {
  readonly number: number;
  /** The state that the conversation begins in; its place is the same in both steps. */
  readonly first: string | null;
  readonly nodes: readonly string[];
  readonly edges: readonly { id: string; from: string; to: string; label: string }[];
  /** The direction of states that have places already; none: the better one is taken. */
  readonly direction: Direction | null;
  /** Width and height of the place that the picture is for. */
  readonly frame: Point;
}

/** A large machine is answered twice: its beginning, then the whole. */
export interface LayoutAnswer extends LaidOut {
  readonly number: number;
  readonly isWhole: boolean;
}
