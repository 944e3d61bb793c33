// Groups that are folded: a state with all states that only it leads to, drawn as one box.
import type { Graph, GraphEdge } from "../api/types";
import { grouped } from "../state/grouped";

export interface Folded {
  readonly graph: Graph;
  /** The box that stands for a state that is hidden. */
  readonly boxes: ReadonlyMap<string, string>;
  /** Transitions whose line leads to another box than their state. */
  readonly bent: ReadonlySet<string>;
}

/** Return the states that only this one leads to. */
export function behind({ nodes, edges, initial }: Graph, id: string): ReadonlySet<string> {
  const outward = grouped(edges, (one) => one.source);
  const reach = (from: readonly string[], stop: string | null): Set<string> => {
    const found = new Set(from);
    // The set grows while it is read; each state enters it once.
    for (const one of found) {
      if (one === stop) continue;
      for (const { target } of outward.get(one) ?? []) found.add(target);
    }
    return found;
  };
  const first = initial ?? nodes[0]?.id ?? id;
  const everywhere = (outward.get(null) ?? []).map((one) => one.target);
  const others = reach([first, ...everywhere], id);
  const found = reach([id], null);
  return new Set([...found].filter((one) => one !== id && !others.has(one)));
}

/** Hide what is behind states that are folded. A state inside a folded group has no box of its own. */
export function foldedGraph(graph: Graph, names: readonly string[]): Folded {
  const boxes = new Map<string, string>();
  const folded = graph.nodes.filter((one) => names.includes(one.id) && one.kind !== "subflow");
  for (const { id } of folded) for (const one of behind(graph, id)) boxes.set(one, id);
  const boxOf = (id: string): string => (boxes.has(id) ? boxOf(boxes.get(id)!) : id);
  for (const id of boxes.keys()) boxes.set(id, boxOf(id));
  const bent = new Set<string>();
  const edges: GraphEdge[] = [];
  for (const edge of graph.edges) {
    const source = edge.source === null ? null : boxOf(edge.source);
    const target = boxOf(edge.target);
    const isMoved = source !== edge.source || target !== edge.target;
    if (isMoved && source === target) continue;
    if (isMoved) bent.add(edge.id);
    edges.push(isMoved ? { ...edge, source, target } : edge);
  }
  const nodes = graph.nodes.filter((one) => !boxes.has(one.id));
  return { graph: boxes.size === 0 ? graph : { ...graph, nodes, edges }, boxes, bent };
}
