import dagre from "@dagrejs/dagre";
import type { LayoutRequest, Route } from "./layout";

const WIDTH = 216;
const HEIGHT = 72;
/** Labels have two lines at most. */
const LABEL_WIDTH = 136;
const LETTER_WIDTH = 6.4;
/** More states than this are ranked by the quick ranker, which is nearly as good. */
const MANY = 150;

onmessage = (event: MessageEvent<LayoutRequest>) => {
  const { number, nodes, edges } = event.data;
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({
    rankdir: "LR",
    nodesep: 36,
    ranksep: 44,
    edgesep: 24,
    marginx: 0,
    marginy: 0,
    ranker: nodes.length > MANY ? "tight-tree" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of nodes) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { id, from, to, label } of edges) {
    const length = 16 + label.length * LETTER_WIDTH;
    const width = label ? Math.min(LABEL_WIDTH, length) : 24;
    const height = length > LABEL_WIDTH ? 42 : 24;
    graph.setEdge(from, to, { width, height, labelpos: "c" }, id);
  }
  dagre.layout(graph);
  const positions: Record<string, { x: number; y: number }> = {};
  for (const id of nodes) {
    const made = graph.node(id) as { x: number; y: number };
    const x = Math.round(made.x - WIDTH / 2);
    positions[id] = { x, y: Math.round(made.y - HEIGHT / 2) };
  }
  const routes: Record<string, Route> = {};
  for (const { id, from, to } of edges) {
    const made = graph.edge({ v: from, w: to, name: id }) as {
      points: { x: number; y: number }[];
      x?: number;
      y?: number;
    };
    const middle = made.points[Math.floor(made.points.length / 2)]!;
    const label = { x: made.x ?? middle.x, y: made.y ?? middle.y };
    routes[id] = { points: made.points, label };
  }
  postMessage({ number, positions, routes });
};
