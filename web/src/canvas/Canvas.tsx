// The machine as a picture: states by kind, transitions with their conditions in words.
import {
  BaseEdge,
  Background,
  type Connection,
  Controls,
  type Edge,
  EdgeLabelRenderer,
  type EdgeProps,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeChange,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  type FinalConnectionState,
  applyNodeChanges,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { GraphEdge, GraphNode } from "../api/types";
import {
  addState,
  connect,
  firstLayout,
  insertState,
  isEdge,
  lastLayout,
  onReveal,
  repoint,
} from "../state/actions";
import { fill, getState, openPanel, place, present, select, useStudio } from "../state/studio";
import { EVERYWHERE, HEIGHT, type LaidOut, type Point, WIDTH, roughPlaces } from "./layout";
import { pathOf, routesOf } from "./route";
import { SubflowPicture } from "./SubflowPicture";

const LABEL_ZOOM = 0.55;
const MANY = 120;

type StateNode = Node<
  { node: GraphNode; lit: string; figure: string; isOpen: boolean; path: string },
  "state"
>;
type EverywhereNode = Node<{ edges: GraphEdge[]; patterns: string[]; selected: string }, "all">;
type WayEdge = Edge<
  { edge: GraphEdge; points: readonly Point[]; label: Point; lit: string; figure: string },
  "way"
>;

const KIND_WORDS: Record<string, string> = {
  converse: "talks",
  decide: "decides",
  task: "works",
  subflow: "sub-flow",
  wait: "waits",
  final: "ends",
  unknown: "missing",
};

function StateBox({ id, data, selected }: NodeProps<StateNode>) {
  const { node } = data;
  const fault = node.level === "error" ? "✖" : node.level === "warning" ? "▲" : "";
  return (
    <div
      class={`state kind-${node.kind} ${data.lit} ${selected ? "chosen" : ""}`}
      style={{ width: WIDTH, minHeight: HEIGHT }}
      title={node.purpose}
    >
      {node.kind !== "unknown" && <Handle type="target" position={Position.Left} />}
      <div class="state-head">
        {node.initial && (
          <span class="start" title="The conversation begins here">
            ▶
          </span>
        )}
        <b>{id}</b>
        <span class="kind">{KIND_WORDS[node.kind] ?? node.kind}</span>
        {fault && <span class={`fault ${node.level}`}>{fault}</span>}
      </div>
      <div class="purpose">{node.purpose || node.reply || node.flow || " "}</div>
      {data.figure && <div class="figure">{data.figure}</div>}
      {node.kind === "subflow" && data.isOpen && node.flow && (
        <SubflowPicture flow={node.flow} />
      )}
      <Handle type="source" position={Position.Right} />
    </div>
  );
}

function Everywhere({ data }: NodeProps<EverywhereNode>) {
  return (
    <div class="everywhere" style={{ width: WIDTH }}>
      <b>From everywhere</b>
      {data.edges.map((one) => (
        <button
          key={one.id}
          type="button"
          class={`nodrag ${data.selected === one.id ? "chosen" : ""}`}
          title={one.label}
          onClick={() => {
            select([one.id]);
            openPanel("details");
          }}
        >
          → {one.target} <small>{one.label}</small>
        </button>
      ))}
      {data.patterns.length > 0 && <small>Patterns: {data.patterns.join(", ")}</small>}
    </div>
  );
}

const MARK_WORDS: Record<string, string> = {
  lit: " The conversation is here.",
  covered: " The tests reach it.",
  missed: " The tests miss it.",
};

/** Return what the picture of a state says, colours included, in words. */
function wordsOf(node: GraphNode, marks: readonly string[]): string {
  const told = marks.map((one) => MARK_WORDS[one] ?? "").join("");
  return `State ${node.id}, ${KIND_WORDS[node.kind] ?? node.kind}.${told} ${node.purpose}`;
}

const labelOf = (edge: GraphEdge): string => edge.label || edge.words;

function Way(props: EdgeProps<WayEdge>) {
  const { data, selected, markerEnd, sourceX, sourceY, targetX, targetY } = props;
  const showsLabel = useStore((store) => store.transform[2] >= LABEL_ZOOM);
  if (!data) return null;
  const first = data.points[0];
  const last = data.points[data.points.length - 1];
  // While a state is dragged its lines follow straight; their way around boxes is found when it rests.
  const rests =
    first !== undefined &&
    last !== undefined &&
    (data.edge.source === data.edge.target || near(first.x, sourceX)) &&
    near(last.x, targetX, WIDTH);
  const points = rests
    ? data.points
    : [
        { x: sourceX, y: sourceY },
        { x: targetX, y: targetY },
      ];
  const label = rests
    ? data.label
    : { x: (sourceX + targetX) / 2, y: (sourceY + targetY) / 2 };
  const text = labelOf(data.edge);
  return (
    <>
      <BaseEdge
        path={pathOf(points)}
        markerEnd={markerEnd}
        interactionWidth={22}
        className={`way how-${data.edge.how} ${data.lit} ${selected ? "chosen" : ""}`}
      />
      {(showsLabel || selected) && (text || data.figure || data.edge.level || selected) && (
        <EdgeLabelRenderer>
          <div
            class={`way-label nodrag nopan ${selected ? "chosen" : ""}`}
            style={{ transform: `translate(-50%,-50%) translate(${label.x}px,${label.y}px)` }}
            title={[data.edge.label, data.edge.words].filter(Boolean).join("\n")}
            onClick={() => {
              select([data.edge.id]);
              openPanel("details");
            }}
          >
            {data.edge.level && <span class={`fault ${data.edge.level}`}>▲</span>}
            <span>{text}</span>
            {data.figure && <span class="figure">{data.figure}</span>}
            {selected && data.edge.how === "picked" && (
              <button
                type="button"
                aria-label="Insert a state here"
                onClick={(event) => {
                  event.stopPropagation();
                  void insertState(data.edge.id);
                }}
              >
                +
              </button>
            )}
          </div>
        </EdgeLabelRenderer>
      )}
    </>
  );
}

const near = (a: number, b: number, by = 60) => Math.abs(a - b) <= by;

const nodeTypes = { state: StateBox, all: Everywhere };
const edgeTypes = { way: Way };
const HANDLES = [
  { type: "target" as const, position: Position.Left, x: 0, y: HEIGHT / 2, width: 1, height: 1 },
  { type: "source" as const, position: Position.Right, x: WIDTH, y: HEIGHT / 2, width: 1, height: 1 },
];

function Picture() {
  const flow = useReactFlow();
  const version = useStudio(present);
  const path = useStudio((state) => state.path);
  const selected = useStudio((state) => state.selected);
  const lit = useStudio((state) => state.lit);
  const [isLaying, setLaying] = useState(false);
  const [laid, setLaid] = useState<LaidOut | null>(null);
  const [shown, setShown] = useState<(StateNode | EverywhereNode)[]>([]);
  const fitted = useRef<string | null>(null);
  const graph = version?.checked.graph;
  const positions = version?.positions;

  // States without a place get one: all of them at once if none has one, else beside a neighbour.
  useEffect(() => {
    if (!graph || !positions) return;
    const lost = graph.nodes.filter((one) => !positions[one.id]);
    if (lost.length === 0) {
      // Places that dagre chose get dagre's lines, also when the file is opened again.
      if (lastLayout() === null && graph.nodes.length > 0) void firstLayout().then(setLaid);
      return;
    }
    const has = graph.nodes.some((one) => positions[one.id]);
    if (has) {
      fill(besides(lost, graph.edges, { ...positions }));
      return;
    }
    setLaying(true);
    const isRough = graph.nodes.length > MANY;
    if (isRough) fill(roughPlaces(graph.nodes, graph.edges));
    const { path: laid, at } = getState();
    void firstLayout().then((made) => {
      setLaying(false);
      // What was moved or opened meanwhile stays.
      if (getState().path !== laid || getState().at !== at) return;
      fill(made.positions, isRough);
      fitted.current = null;
    });
  }, [graph, positions]);

  const built = useMemo(() => {
    if (!graph || !positions) return [];
    const known = new Set(selected);
    const covered = lit.covered && new Set(lit.covered);
    const states = graph.nodes
      .filter((one) => positions[one.id])
      .map((node): StateNode => {
        const marks = [
          lit.state === node.id ? "lit" : "",
          covered ? (covered.has(node.pointer) ? "covered" : "missed") : "",
        ];
        const isOpen = version?.folded.includes(node.id) ?? false;
        const figure = lit.figures?.[node.pointer] ?? "";
        return {
          id: node.id,
          type: "state",
          position: positions[node.id]!,
          width: WIDTH,
          height: isOpen ? undefined : HEIGHT,
          handles: HANDLES,
          selected: known.has(node.id),
          ariaLabel: wordsOf(node, marks),
          data: { node, lit: marks.join(" "), figure, isOpen, path: path ?? "" },
        };
      });
    const free = graph.edges.filter((one) => one.source === null);
    const isAlone = free.length === 0 && graph.patterns.length === 0;
    if (states.length === 0 || isAlone) return states;
    const left = Math.min(...states.map((one) => one.position.x));
    const top = Math.min(...states.map((one) => one.position.y));
    const all: EverywhereNode = {
      id: EVERYWHERE,
      type: "all",
      position: { x: left, y: top - 96 - free.length * 26 },
      width: WIDTH,
      draggable: false,
      selectable: false,
      data: { edges: free, patterns: graph.patterns, selected: selected[0] ?? "" },
    };
    return [...states, all];
  }, [graph, positions, selected, lit, version?.folded]);

  useEffect(() => setShown(built), [built]);

  const routes = useMemo(() => {
    if (!graph || !positions) return new Map();
    const ends = graph.edges
      .filter((one) => one.source !== null)
      .map((one) => ({ id: one.id, source: one.source!, target: one.target }));
    return routesOf(ends, positions, lastLayout());
  }, [graph, positions, laid]);

  const ways = useMemo(() => {
    const found: WayEdge[] = [];
    const taken = new Set(lit.edges);
    const covered = lit.covered && new Set(lit.covered);
    for (const edge of graph?.edges ?? []) {
      const route = routes.get(edge.id);
      if (!route || edge.source === null) continue;
      const marks = [
        taken.has(edge.pointer) ? "lit" : "",
        covered ? (covered.has(edge.pointer) ? "covered" : "missed") : "",
      ];
      found.push({
        id: edge.id,
        type: "way",
        source: edge.source,
        target: edge.target,
        selected: selected.includes(edge.id),
        reconnectable: edge.how === "picked" || edge.how === "auto",
        markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16, color: "var(--line-strong)" },
        ariaLabel: `Transition from ${edge.source} to ${edge.target}. ${labelOf(edge)}`,
        data: {
          edge,
          points: route.points,
          label: route.label,
          lit: marks.join(" "),
          figure: lit.figures?.[edge.pointer] ?? "",
        },
      });
    }
    return found;
  }, [graph, routes, selected, lit]);

  // A machine that fits is shown whole; a larger one from its first state on, so that it can be read.
  const lookAtFirst = async () => {
    await flow.fitView({ padding: 0.1, maxZoom: 1 });
    const first = graph?.nodes.find((one) => one.initial) ?? graph?.nodes[0];
    const at = first && positions?.[first.id];
    if (!at || flow.getZoom() >= LABEL_ZOOM) return;
    const frame = document.querySelector(".canvas")!.getBoundingClientRect();
    const zoom = 0.7;
    await flow.setViewport({
      x: 40 - at.x * zoom,
      y: frame.height / 2 - (at.y + HEIGHT / 2) * zoom,
      zoom,
    });
  };

  useEffect(() => {
    if (shown.length === 0 || fitted.current === path || !path) return;
    fitted.current = path;
    requestAnimationFrame(() => void lookAtFirst());
  }, [shown, path]);

  useEffect(() => {
    onReveal((id) => {
      const edge = present()?.checked.graph.edges.find((one) => one.id === id);
      const state = edge ? (edge.source ?? edge.target) : id;
      const at = present()?.positions[state];
      if (at && !isInView(flow.flowToScreenPosition(at), flow.getZoom())) void flow.setCenter(at.x + WIDTH / 2, at.y + HEIGHT / 2, { zoom: 1, duration: 200 });
    });
    return () => onReveal(null);
  }, []);

  const onNodesChange = useCallback((changes: NodeChange<StateNode | EverywhereNode>[]) => {
    const moves = changes.filter((one) => one.type !== "select" && one.type !== "remove");
    setShown((now) => applyNodeChanges(moves, now));
    const keyed = changes.filter((one) => one.type === "position" && one.dragging === false);
    // Arrow keys move without a drag; they report their places here alone.
    const places = keyed.flatMap((one) =>
      one.type === "position" && one.position ? [[one.id, one.position] as const] : [],
    );
    if (places.length > 0 && !dragging.current) moved(Object.fromEntries(places));
  }, []);
  const dragging = useRef(false);

  const onSelection = useCallback(
    ({ nodes, edges }: { nodes: Node[]; edges: Edge[] }) => {
      const ids = [...nodes.map((one) => one.id), ...edges.map((one) => one.id)];
      select(ids.filter((id) => id !== EVERYWHERE));
    },
    [],
  );

  const onConnect = useCallback((made: Connection) => void connect(made.source, made.target), []);
  const onConnectEnd = useCallback((event: MouseEvent | TouchEvent, made: FinalConnectionState) => {
    if (made.isValid || made.toNode || !made.fromNode || made.fromHandle?.type !== "source") return;
    const point = "changedTouches" in event ? event.changedTouches[0]! : event;
    const at = flow.screenToFlowPosition({ x: point.clientX, y: point.clientY });
    const start = made.from;
    if (start && Math.hypot(at.x - start.x, at.y - start.y) < 30) return;
    void addState(made.fromNode.id, { x: Math.round(at.x), y: Math.round(at.y - HEIGHT / 2) });
  }, []);

  return (
    <ReactFlow
      nodes={shown}
      edges={ways}
      nodeTypes={nodeTypes}
      edgeTypes={edgeTypes}
      onNodesChange={onNodesChange}
      onNodeDragStart={() => {
        dragging.current = true;
      }}
      onNodeDragStop={(_event, _node, all) => {
        dragging.current = false;
        moved(Object.fromEntries(all.map((one) => [one.id, one.position])));
      }}
      onSelectionChange={onSelection}
      onNodeClick={(_event, node) => select(node.id === EVERYWHERE ? [] : [node.id])}
      onNodeDoubleClick={() => openPanel("details")}
      onEdgeClick={(_event, edge) => select([edge.id])}
      onEdgeDoubleClick={(_event, edge) => void insertState(edge.id)}
      onPaneClick={() => select([])}
      onConnect={onConnect}
      onConnectEnd={onConnectEnd}
      onReconnect={(old, made) => {
        const source = made.source === old.source ? undefined : made.source;
        const target = made.target === old.target ? undefined : made.target;
        void repoint(old.id, { source, target });
      }}
      onlyRenderVisibleElements={shown.length > MANY}
      deleteKeyCode={null}
      multiSelectionKeyCode={["Shift", "Control", "Meta"]}
      selectionKeyCode="Shift"
      zoomOnDoubleClick={false}
      minZoom={0.03}
      maxZoom={2}
      connectionRadius={30}
      nodeDragThreshold={3}
      elevateEdgesOnSelect
      proOptions={{ hideAttribution: true }}
      aria-label="Canvas"
    >
      <Background gap={24} size={1} color="var(--dots)" />
      <Controls showInteractive={false} />
      <MiniMap pannable zoomable ariaLabel="Map" nodeColor="var(--mini)" maskColor="var(--mask)" />
      {isLaying && (
        <div class="laying" role="status">
          Placing states…
        </div>
      )}
    </ReactFlow>
  );
}

/** Return true for a state that can be seen whole, so that the picture need not move. */
function isInView(at: Point, zoom: number): boolean {
  const frame = document.querySelector(".canvas")!.getBoundingClientRect();
  const isWide = at.x >= frame.left && at.x + WIDTH * zoom <= frame.right;
  return isWide && at.y >= frame.top && at.y + HEIGHT * zoom <= frame.bottom;
}

function moved(places: Record<string, Point>): void {
  const now = present()?.positions ?? {};
  const changed = Object.entries(places)
    .filter(([id]) => id !== EVERYWHERE)
    .map(([id, at]) => [id, { x: Math.round(at.x), y: Math.round(at.y) }] as const)
    .filter(([id, at]) => now[id]?.x !== at.x || now[id]?.y !== at.y);
  if (changed.length === 0) return;
  const what = changed.length === 1 ? changed[0]![0] : `${changed.length} states`;
  place(Object.fromEntries(changed), `Move ${what}`);
}

/** Return places for states that came without one, such as from the text: beside what leads to them. */
function besides(
  lost: readonly GraphNode[],
  edges: readonly GraphEdge[],
  taken: Record<string, Point>,
): Record<string, Point> {
  const made: Record<string, Point> = {};
  for (const one of lost) {
    const way = edges.find((edge) => edge.target === one.id && edge.source && taken[edge.source]);
    const beside = way ? taken[way.source!]! : { x: -WIDTH - 160, y: 0 };
    const at = { x: beside.x + WIDTH + 160, y: beside.y };
    const isTaken = (place: Point) =>
      Object.values(taken).some(
        (other) => Math.abs(other.x - at.x) < WIDTH && Math.abs(other.y - place.y) < HEIGHT + 20,
      );
    while (isTaken(at)) at.y += HEIGHT + 40;
    taken[one.id] = at;
    made[one.id] = at;
  }
  return made;
}

export default function Canvas() {
  const selected = useStudio((state) => state.selected);
  const isJson = useStudio((state) => present(state)?.checked.is_json ?? true);
  const chosen = selected.length === 1 && !isEdge(selected[0]!) ? selected[0]! : null;
  return (
    <div class="canvas" data-chosen={chosen ?? undefined}>
      {!isJson && (
        <p class="banner" role="status">
          The text is not JSON at the moment. This is the last picture of it; mend the text to go on.
        </p>
      )}
      <ReactFlowProvider>
        <Picture />
      </ReactFlowProvider>
    </div>
  );
}
