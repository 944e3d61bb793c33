// Sizes and shapes of the picture, for the page and for the worker that lays it out.
export const WIDTH = 216;
export const HEIGHT = 72;
/** More states than this are drawn in view alone, and laid out in two steps. */
export const MANY = 120;

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The way of the first state to the last one: from left to right, or from top to bottom. */
export type Direction = "LR" | "TB";

/** A label: its middle, and its size. */
export interface Label extends Point {
  readonly width: number;
  readonly height: number;
}

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
