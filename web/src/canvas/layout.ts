// Where states, lines and labels are put. Dagre works in a worker, so that the page stays quick.
import type { GraphEdge, GraphNode } from "../api/types";
import { edges as allEdges } from "../state/machine";
import { type Positions, getState, present } from "../state/store";
import { isOver } from "./crossings";
import { routeOf } from "./route";
import {
  type Direction,
  HEIGHT,
  type LaidOut,
  type LayoutAnswer,
  type LayoutRequest,
  type Point,
  type Size,
  WIDTH,
  boundsOf,
  boxOf,
} from "./shapes";

export const EVERYWHERE = "\u0000everywhere";

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

/** Return width and height of the place for the picture. */
function frameOf(): Point {
  const box = document.querySelector(".canvas")?.getBoundingClientRect();
  return {
    x: Math.max(200, (box?.width ?? 900) - 96),
    y: Math.max(200, (box?.height ?? 700) - 96),
  };
}

/** Lay out states in the worker. `early` takes the places of the first states of a large machine. */
export function layOut(
  nodes: readonly GraphNode[],
  edges: readonly GraphEdge[],
  early?: (made: LaidOut) => void,
  direction: Direction | null = null,
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
      .map((one) => ({ id: one.id, from: one.source!, to: one.target, label: labelOf(one) })),
    direction,
    frame: frameOf(),
  };
  const mine = number;
  const made = new Promise<LaidOut>((done) => waiting.set(mine, { done, early }));
  worker.postMessage(request);
  return made;
}

/** Return the direction in which most lines between places lead; null if there are no places yet. */
export function directionOf(edges: readonly GraphEdge[], places: Positions): Direction | null {
  let [across, down] = [0, 0];
  for (const { source, target } of edges) {
    const [a, b] = [places.get(source ?? ""), places.get(target)];
    across += a && b ? Math.abs(a.x - b.x) / WIDTH : 0;
    down += a && b ? Math.abs(a.y - b.y) / HEIGHT / 2 : 0;
  }
  if (across === down) return null;
  return down > across ? "TB" : "LR";
}

export const labelOf = (edge: GraphEdge): string => edge.label || edge.words;

/** Start the worker, so that it is there when the file is. */
export function warmUp(): void {
  worker ??= start();
}

let laidOut: LaidOut | null = null;
let laidPath: string | null = null;

/** Return the last layout of the whole machine that is open. */
export const lastLayout = (): LaidOut | null => (laidPath === getState().path ? laidOut : null);

export function takeLayout(made: LaidOut, path: string | null): void {
  laidOut = made;
  laidPath = path;
}

/** Return true for a box that lies on no state, no line and no label. */
function isFree(at: Point, height: number, positions: Positions): boolean {
  const room = 12;
  const box = {
    left: at.x - room,
    top: at.y - room,
    right: at.x + WIDTH + room,
    bottom: at.y + height + room,
  };
  const isOn = ({ x, y, width = WIDTH, height: high = HEIGHT }: Point & Partial<Size>) =>
    x < box.right && x + width > box.left && y < box.bottom && y + high > box.top;
  if ([...positions.values()].some(isOn)) return false;
  const laid = lastLayout();
  return allEdges().every((edge) => {
    const route = routeOf(edge, positions, laid);
    if (!route) return true;
    return !isOver(route, box) && !isOn(boxOf(route.label));
  });
}

const STEP = 40;
const MOST_STEPS = 400;

/** Return a free place behind a state, in the direction of the layout; below everything if there is none. */
export function freePlace(neighbour: string | null, taken?: Positions): Point {
  const positions: Positions = taken ?? present()?.positions ?? new Map();
  const beside = neighbour === null ? undefined : positions.get(neighbour);
  const { left, bottom } = boundsOf([...positions.values()]);
  if (positions.size === 0) return { x: 0, y: 0 };
  const isDown = (lastLayout()?.direction ?? "TB") === "TB";
  const behind = isDown ? { x: 0, y: HEIGHT + 96 } : { x: WIDTH + 160, y: 0 };
  const start = beside
    ? { x: beside.x + behind.x, y: beside.y + behind.y }
    : { x: left, y: bottom + 64 };
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const by = Math.ceil(step / 2) * STEP * (step % 2 ? 1 : -1);
    const place = {
      x: Math.round(start.x + (isDown ? by : 0)),
      y: Math.round(start.y + (isDown ? 0 : by)),
    };
    if (isFree(place, HEIGHT, positions)) return place;
  }
  return { x: left, y: bottom + 64 };
}

/** Return a free corner for the box of transitions from everywhere; else the place above everything. */
export function freeCorner(height: number, positions: Positions): Point {
  const { left, top, right } = boundsOf([...positions.values()]);
  const corners = [left, right - WIDTH].map((x) => ({ x, y: top }));
  const beside = right - left < WIDTH * 3 ? [{ x: left - WIDTH - 72, y: top }] : [];
  const above = { x: left, y: top - 56 - height };
  return [...corners, ...beside].find((one) => isFree(one, height, positions)) ?? above;
}
