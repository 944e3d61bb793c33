// Where states, lines and labels are put. Dagre works in a worker, so that the page stays quick.
import type { GraphEdge, GraphNode } from "../api/types";
import { present } from "../state/studio";
import type { Positions } from "../state/studio";

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
  readonly routes: Readonly<Record<string, Route>>;
}

export interface LayoutRequest {
  readonly number: number;
  readonly nodes: readonly string[];
  readonly edges: readonly { id: string; from: string; to: string; label: string }[];
}

let worker: Worker | null = null;
let number = 0;
const waiting = new Map<number, (made: LaidOut) => void>();

function start(): Worker {
  const made = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
  made.onmessage = (event: MessageEvent<LaidOut & { number: number }>) => {
    waiting.get(event.data.number)?.(event.data);
    waiting.delete(event.data.number);
  };
  return made;
}

export function layOut(
  nodes: readonly GraphNode[],
  edges: readonly GraphEdge[],
): Promise<LaidOut> {
  worker ??= start();
  number += 1;
  const known = new Set(nodes.map((one) => one.id));
  const drawn = edges.filter((one) => one.source !== null && known.has(one.source));
  const request: LayoutRequest = {
    number,
    nodes: nodes.map((one) => one.id),
    edges: drawn
      .filter((one) => known.has(one.target))
      .map((one) => ({ id: one.id, from: one.source!, to: one.target, label: one.label })),
  };
  const mine = number;
  const made = new Promise<LaidOut>((done) => waiting.set(mine, done));
  worker.postMessage(request);
  return made;
}

/** Start the worker, so that it is there when the file is. */
export function warmUp(): void {
  worker ??= start();
}

/** Return rough places at once: a column for each step from the first state. Dagre's follow. */
export function roughPlaces(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Positions {
  const outward = new Map<string, string[]>();
  for (const edge of edges) {
    if (edge.source === null) continue;
    outward.set(edge.source, [...(outward.get(edge.source) ?? []), edge.target]);
  }
  const ranks = new Map<string, number>();
  const starts = [...nodes.filter((one) => one.initial), ...nodes].map((one) => one.id);
  for (const start of starts) {
    if (ranks.has(start)) continue;
    ranks.set(start, 0);
    const queue = [start];
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
      for (const next of outward.get(id) ?? []) {
        if (ranks.has(next)) continue;
        ranks.set(next, ranks.get(id)! + 1);
        queue.push(next);
      }
    }
  }
  const filled = new Map<number, number>();
  const places: Positions = {};
  for (const { id } of nodes) {
    const rank = ranks.get(id) ?? 0;
    const row = filled.get(rank) ?? 0;
    filled.set(rank, row + 1);
    places[id] = { x: rank * (WIDTH + 220), y: row * (HEIGHT + 40) };
  }
  return places;
}

const overlaps = (a: Point, b: Point) =>
  Math.abs(a.x - b.x) < WIDTH + 24 && Math.abs(a.y - b.y) < HEIGHT + 24;

/** Return a free place to the right of a state; below everything if there is no neighbour. */
export function freePlace(neighbour: string | null): Point {
  const positions = present()?.positions ?? {};
  const taken = Object.values(positions);
  const beside = neighbour === null ? undefined : positions[neighbour];
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
