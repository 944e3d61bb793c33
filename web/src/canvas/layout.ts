// Where states, lines and labels are put. Dagre works in a worker, so that the page stays quick.
import type { GraphEdge, GraphNode } from "../api/types";
import { present } from "../state/store";
import type { Positions } from "../state/store";

export const WIDTH = 216;
export const HEIGHT = 72;
export const EVERYWHERE = "\u0000everywhere";

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** A line as points, and the middle of its label. */
export interface Route {
  readonly points: readonly Point[];
  readonly label: Point;
}

export interface LaidOut {
  readonly positions: Positions;
  readonly routes: ReadonlyMap<string, Route>;
}

export interface LayoutRequest {
  readonly number: number;
  /** The state that the conversation begins in; its place is the same in both steps. */
  readonly first: string | null;
  readonly nodes: readonly string[];
  readonly edges: readonly { id: string; from: string; to: string; label: string }[];
}

/** A large machine is answered twice: its beginning, then the whole. */
export interface LayoutAnswer extends LaidOut {
  readonly number: number;
  readonly isWhole: boolean;
}

let worker: Worker | null = null;
let number = 0;

interface Waiting {
  readonly done: (made: LaidOut) => void;
  readonly early: ((made: LaidOut) => void) | undefined;
}

const waiting = new Map<number, Waiting>();

function start(): Worker {
  const made = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  made.onmessage = (event: MessageEvent<LayoutAnswer>) => {
    const asked = waiting.get(event.data.number);
    if (!event.data.isWhole) {
      asked?.early?.(event.data);
      return;
    }
    waiting.delete(event.data.number);
    asked?.done(event.data);
  };
  return made;
}

/** Lay out states in the worker. `early` takes the places of the first states of a large machine. */
export function layOut(
  nodes: readonly GraphNode[],
  edges: readonly GraphEdge[],
  early?: (made: LaidOut) => void,
): Promise<LaidOut> {
  worker ??= start();
  number += 1;
  const known = new Set(nodes.map((one) => one.id));
  const drawn = edges.filter((one) => one.source !== null && known.has(one.source));
  const request: LayoutRequest = {
    number,
    first: (nodes.find((one) => one.initial) ?? nodes[0])?.id ?? null,
    nodes: nodes.map((one) => one.id),
    edges: drawn
      .filter((one) => known.has(one.target))
      .map((one) => ({ id: one.id, from: one.source!, to: one.target, label: one.label })),
  };
  const mine = number;
  const made = new Promise<LaidOut>((done) => waiting.set(mine, { done, early }));
  worker.postMessage(request);
  return made;
}

/** Start the worker, so that it is there when the file is. */
export function warmUp(): void {
  worker ??= start();
}

/** Return what the boxes at these places take up. */
export function boundsOf(places: readonly Point[]) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of places) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x + WIDTH);
    bottom = Math.max(bottom, y + HEIGHT);
  }
  return { left, top, right, bottom };
}

const overlaps = (a: Point, b: Point) =>
  Math.abs(a.x - b.x) < WIDTH + 24 && Math.abs(a.y - b.y) < HEIGHT + 24;

/** Return a free place to the right of a state; below everything if there is no neighbour. */
export function freePlace(neighbour: string | null): Point {
  const positions: Positions = present()?.positions ?? new Map();
  const taken = [...positions.values()];
  const beside = neighbour === null ? undefined : positions.get(neighbour);
  const bottom = taken.reduce((most, one) => Math.max(most, one.y), -HEIGHT * 2);
  const start = beside
    ? { x: beside.x + WIDTH + 160, y: beside.y }
    : { x: 0, y: bottom + HEIGHT + 48 };
  for (let step = 0; ; step += 1) {
    const down = Math.ceil(step / 2) * (HEIGHT + 40) * (step % 2 ? 1 : -1);
    const place = { x: Math.round(start.x), y: Math.round(start.y + down) };
    if (!taken.some((one) => overlaps(one, place))) return place;
  }
}
