// What is different between two versions, as the canvas draws it.
import type { Graph, GraphEdge, GraphNode } from "../api/types";

export type Mark = "added" | "changed" | "removed";

/** The version before. `places`: pointers of all that is different by meaning. */
export interface Before {
  readonly name: string;
  readonly graph: Graph;
  readonly places: readonly string[];
}

export interface Changes {
  /** What is there now, and what was removed. */
  readonly graph: Graph;
  readonly marks: ReadonlyMap<string, Mark>;
}

export function changesOf(before: Before, now: Graph): Changes {
  const marks = new Map<string, Mark>();
  /** Return true if something below a pointer is different; transitions count for themselves. */
  const isNamed = (pointer: string) =>
    before.places.some((one) => {
      const inner = `${one}/`.startsWith(`${pointer}/`) ? one.slice(pointer.length) : null;
      return inner !== null && !inner.startsWith("/transitions");
    });
  const old = new Map(before.graph.nodes.filter(isReal).map((one) => [one.id, one]));
  for (const node of now.nodes.filter(isReal)) {
    const was = old.get(node.id);
    if (!was) marks.set(node.id, "added");
    else if (isNamed(node.pointer) || shownOf(was) !== shownOf(node)) marks.set(node.id, "changed");
    old.delete(node.id);
  }
  for (const id of old.keys()) marks.set(id, "removed");
  const ways = keyed(before.graph.edges);
  for (const [key, edge] of keyed(now.edges)) {
    const was = ways.get(key);
    if (!was) marks.set(edge.id, "added");
    else if (isNamed(edge.pointer) || wordsOf(was) !== wordsOf(edge)) marks.set(edge.id, "changed");
    ways.delete(key);
  }
  const lost = [...ways.values()].map((one) => ({ ...one, id: `/removed${one.id}`, level: null }));
  for (const one of lost) marks.set(one.id, "removed");
  const gone = [...old.values()].map((one) => ({ ...one, initial: false, level: null }));
  return {
    graph: { ...now, nodes: [...now.nodes, ...gone], edges: [...now.edges, ...lost] },
    marks,
  };
}

const isReal = (node: GraphNode): boolean => node.kind !== "unknown";

/** Return transitions by their ends. A further one between the same states has the next number. */
function keyed(edges: readonly GraphEdge[]): Map<string, GraphEdge> {
  const found = new Map<string, GraphEdge>();
  for (const edge of edges) {
    for (let number = 0; ; number += 1) {
      const key = JSON.stringify([edge.source, edge.target, number]);
      if (found.has(key)) continue;
      found.set(key, edge);
      break;
    }
  }
  return found;
}

const shownOf = ({ kind, purpose, reply, keys, tools, key_results, initial }: GraphNode): string =>
  JSON.stringify([kind, purpose, reply, keys, tools, key_results, initial]);
const wordsOf = ({ label, words, how, priority, agrees }: GraphEdge): string =>
  JSON.stringify([label, words, how, priority, agrees]);
