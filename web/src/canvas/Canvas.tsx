// The machine as a picture: states by kind, transitions with their conditions in words.
import {
  BaseEdge,
  Background,
  type Connection,
  Controls,
  type Edge,
  type EdgeChange,
  EdgeLabelRenderer,
  type EdgeProps,
  Handle,
  MarkerType,
  type Node,
  type NodeChange,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  type FinalConnectionState,
  type Viewport,
  useReactFlow,
  useStore,
  useStoreApi,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { GraphEdge, GraphNode } from "../api/types";
import { kindWords } from "../views/kinds";
import { addState, connect, firstLayout, insertState, onReveal, repoint } from "../state/actions";
import { edges, isEdge } from "../state/machine";
import { type Positions, getState, openPanel, present, select, useStudio } from "../state/store";
import { fill, place } from "../state/versions";
import {
  EVERYWHERE,
  boundsOf,
  directionOf,
  freeCorner,
  freePlace,
  labelOf,
  lastLayout,
} from "./layout";
import { pathOf, routeOf } from "./route";
import { type Direction, HEIGHT, type LaidOut, type Point, type Route, WIDTH } from "./shapes";
import { LABEL_LINES, LABEL_WIDTH } from "./labels";
import { Overview } from "./Overview";
import { SubflowPicture } from "./SubflowPicture";

const LABEL_ZOOM = 0.5;
/** More states than this are drawn in view alone, and laid out in two steps. */
export const MANY = 120;
/** A picture of so few states needs no map. */
const FEW = 12;
/** A whole machine is shown at this size at least; a larger one begins at its first state. */
const READABLE = 0.65;
const FIRST_ZOOM = 0.85;
const MARGIN = 48;
/** The height of the tools that lie over the picture. */
const TOOLS = 64;
const FAR = 2500;
const NOWHERE: Positions = new Map();
const ARROW = {
  type: MarkerType.ArrowClosed,
  width: 18,
  height: 18,
  // A thick line keeps the arrow of a thin one.
  markerUnits: "userSpaceOnUse",
  color: "var(--line-strong)",
};
/** The file that is being laid out, so that no second layout begins meanwhile. */
let isBeingLaid: string | null = null;

/** The keys that add to the selection or take from it. */
type Modifiers = Pick<MouseEvent, "shiftKey" | "ctrlKey" | "metaKey">;

interface Size {
  readonly width: number;
  readonly height: number;
}

type StateNode = Node<
  { node: GraphNode; lit: string; figure: string; isOpen: boolean; direction: Direction },
  "state"
>;
type EverywhereNode = Node<{ edges: GraphEdge[]; patterns: string[]; selected: string }, "all">;
type WayEdge = Edge<
  {
    edge: GraphEdge;
    route: Route;
    lit: string;
    figure: string;
  },
  "way"
>;

function StateBox({ id, data, selected }: NodeProps<StateNode>) {
  const { node } = data;
  const [target, source] = HANDLES[data.direction];
  const fault = node.level === "error" ? "✖" : node.level === "warning" ? "▲" : "";
  return (
    <div
      class={`state kind-${node.kind} ${data.lit} ${selected ? "chosen" : ""}`}
      style={{ width: WIDTH, minHeight: HEIGHT }}
      title={node.purpose}
    >
      <Handle type="target" position={target!.position} isConnectable={node.kind !== "unknown"} />
      <div class="state-head">
        {node.initial && (
          <span class="start" title="The conversation begins here">
            ▶
          </span>
        )}
        <b>{id}</b>
        <span class="kind">{kindWords(node.kind)}</span>
        {fault && <span class={`fault ${node.level}`}>{fault}</span>}
      </div>
      <div class="purpose">{node.purpose || node.reply || node.flow || " "}</div>
      {data.figure && <div class="figure">{data.figure}</div>}
      {node.kind === "subflow" && data.isOpen && node.flow && <SubflowPicture flow={node.flow} />}
      <Handle type="source" position={source!.position} />
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
  return `State ${node.id}, ${kindWords(node.kind)}.${told} ${node.purpose}`;
}

function Way(props: EdgeProps<WayEdge>) {
  const { data, selected, markerEnd } = props;
  const showsLabel = useStore((store) => store.transform[2] >= LABEL_ZOOM);
  if (!data) return null;
  const { points, label } = data.route;
  const text = labelOf(data.edge);
  return (
    <>
      <BaseEdge
        path={pathOf(points)}
        markerEnd={markerEnd}
        interactionWidth={22}
        className={`way ${isFar(points) ? "far" : ""} how-${data.edge.how} ${data.lit} ${selected ? "chosen" : ""}`}
      />
      {(showsLabel || selected) && (text || data.figure || data.edge.level || selected) && (
        <EdgeLabelRenderer>
          <div
            class={`way-label nodrag nopan ${selected ? "chosen" : ""}`}
            style={{
              maxWidth: LABEL_WIDTH,
              WebkitLineClamp: LABEL_LINES,
              transform: `translate(-50%,-50%) translate(${label.x}px,${label.y}px)`,
            }}
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

/** Long lines are drawn pale, so that what is near can be read between them. */
const isFar = (points: readonly Point[]): boolean => {
  const bounds = boundsOf(points);
  return bounds.right - bounds.left + bounds.bottom - bounds.top > FAR;
};

const nodeTypes = { state: StateBox, all: Everywhere };
const edgeTypes = { way: Way };
/** Lines leave a state at its end and come to its beginning, in the direction of the layout. */
const handlesOf = (direction: Direction) => {
  const isDown = direction === "TB";
  const [target, source] = isDown
    ? [Position.Top, Position.Bottom]
    : [Position.Left, Position.Right];
  const size = { width: 1, height: 1 };
  const begin = isDown ? { x: WIDTH / 2, y: 0 } : { x: 0, y: HEIGHT / 2 };
  const end = isDown ? { x: WIDTH / 2, y: HEIGHT } : { x: WIDTH, y: HEIGHT / 2 };
  return [
    { type: "target" as const, position: target, ...begin, ...size },
    { type: "source" as const, position: source, ...end, ...size },
  ];
};
const HANDLES = { TB: handlesOf("TB"), LR: handlesOf("LR") };

interface PictureProps {
  readonly frame: Size;
  readonly setLaying: (isLaying: boolean) => void;
}

type Shown = StateNode | EverywhereNode;

/** Values that stay the same object for as long as a key has the same parts. React Flow skips what stays. */
function useKept<V>(): (key: string, parts: readonly unknown[], make: () => V) => V {
  const kept = useRef(new Map<string, { parts: readonly unknown[]; value: V }>());
  return (key, parts, make) => {
    const old = kept.current.get(key);
    if (old && old.parts.every((one, n) => one === parts[n])) return old.value;
    const value = make();
    kept.current.set(key, { parts, value });
    return value;
  };
}

function Picture({ frame, setLaying }: PictureProps) {
  const flow = useReactFlow();
  const version = useStudio(present);
  const path = useStudio((state) => state.path);
  const selected = useStudio((state) => state.selected);
  const lit = useStudio((state) => state.lit);
  // The layout is kept outside; a new one draws the picture anew.
  const [, setLaid] = useState<LaidOut | null>(null);
  const [moving, setMoving] = useState<Positions>(NOWHERE);
  const [sizes, setSizes] = useState<ReadonlyMap<string, Size>>(new Map());
  const graph = version?.checked.graph;
  const positions = version?.positions;
  const folded = version?.folded;

  // States without a place get one: all of them at once if none has one, else beside a neighbour.
  useEffect(() => {
    if (!graph || !positions) return;
    const lost = graph.nodes.filter((one) => !positions.has(one.id));
    const isSmall = graph.nodes.length <= MANY;
    if (lost.length === 0) {
      // Places that dagre chose get dagre's lines, also when the file is opened again.
      if (isSmall && lastLayout() === null && graph.nodes.length > 0)
        void firstLayout().then(setLaid);
      return;
    }
    const { path: asked, at } = getState();
    if (isBeingLaid === asked) return;
    if (graph.nodes.some((one) => positions.has(one.id))) {
      fill(besides(lost, graph.edges, positions));
      return;
    }
    isBeingLaid = asked;
    setLaying(true);
    // What was moved or opened meanwhile stays.
    const isSame = () => getState().path === asked && getState().at === at;
    const first = (made: LaidOut) => {
      if (isSame()) fill(made.positions);
    };
    void firstLayout(first).then((made) => {
      isBeingLaid = null;
      if (isSame()) fill(made.positions, true);
      setLaying(false);
    });
  }, [graph, positions]);

  const layout = lastLayout();
  const direction =
    layout?.direction ?? directionOf(graph?.edges ?? [], positions ?? NOWHERE) ?? "TB";
  const keptStates = useKept<StateNode>();
  const shown = useMemo((): Shown[] => {
    if (!graph || !positions) return [];
    const known = new Set(selected);
    const covered = lit.covered && new Set(lit.covered);
    const open = new Set(folded);
    const states: StateNode[] = [];
    for (const node of graph.nodes) {
      const place = moving.get(node.id) ?? positions.get(node.id);
      if (!place) continue;
      const isSelected = known.has(node.id);
      const isOpen = open.has(node.id);
      const figure = lit.figures?.[node.pointer] ?? "";
      const marks = `${lit.state === node.id ? "lit" : ""} ${markOf(covered, node.pointer)}`;
      const size = isOpen ? sizes.get(node.id) : undefined;
      const parts = [node, place, isSelected, isOpen, figure, marks, size, direction];
      const made = keptStates(node.id, parts, () => ({
        id: node.id,
        type: "state",
        position: place,
        width: WIDTH,
        height: isOpen ? undefined : HEIGHT,
        measured: size,
        handles: HANDLES[direction],
        selected: isSelected,
        ariaLabel: wordsOf(node, marks.split(" ")),
        data: { node, lit: marks, figure, isOpen, direction },
      }));
      states.push(made);
    }
    const free = graph.edges.filter((one) => one.source === null);
    const isAlone = free.length === 0 && graph.patterns.length === 0;
    if (states.length === 0 || isAlone) return states;
    const height = 40 + free.length * 26 + (graph.patterns.length > 0 ? 40 : 0);
    const all: EverywhereNode = {
      id: EVERYWHERE,
      type: "all",
      position: freeCorner(height, positions),
      width: WIDTH,
      height,
      draggable: false,
      selectable: false,
      data: { edges: free, patterns: graph.patterns, selected: selected[0] ?? "" },
    };
    return [...states, all];
  }, [graph, positions, moving, sizes, selected, lit, folded, direction]);

  const keptRoutes = useKept<Route | null>();
  const keptWays = useKept<WayEdge>();
  const ways = useMemo(() => {
    const found: WayEdge[] = [];
    const known = new Set(selected);
    const taken = new Set(lit.edges);
    const covered = lit.covered && new Set(lit.covered);
    const places = moving.size > 0 ? new Map([...(positions ?? []), ...moving]) : positions;
    for (const edge of graph?.edges ?? []) {
      if (edge.source === null || !places) continue;
      const ends = [places.get(edge.source), places.get(edge.target), layout];
      const route = keptRoutes(edge.id, ends, () => routeOf(edge, places, layout));
      if (!route) continue;
      const isSelected = known.has(edge.id);
      const figure = lit.figures?.[edge.pointer] ?? "";
      const marks = `${taken.has(edge.pointer) ? "lit" : ""} ${markOf(covered, edge.pointer)}`;
      const parts = [edge, route, isSelected, figure, marks];
      const made = keptWays(edge.id, parts, () => ({
        id: edge.id,
        type: "way",
        source: edge.source!,
        target: edge.target,
        selected: isSelected,
        reconnectable: edge.how === "picked" || edge.how === "auto",
        markerEnd: ARROW,
        ariaLabel: `Transition from ${edge.source} to ${edge.target}. ${labelOf(edge)}`,
        data: { edge, route, lit: marks, figure },
      }));
      found.push(made);
    }
    return found;
  }, [graph, moving, positions, layout, selected, lit]);

  useEffect(() => {
    onReveal((id) => {
      const edge = present()?.checked.graph.edges.find((one) => one.id === id);
      const state = edge ? (edge.source ?? edge.target) : id;
      const at = present()?.positions.get(state);
      if (at && !isInView(flow.flowToScreenPosition(at), flow.getZoom()))
        void flow.setCenter(at.x + WIDTH / 2, at.y + HEIGHT / 2, { zoom: 1, duration: 200 });
    });
    return () => onReveal(null);
  }, []);

  const onNodesChange = useCallback((changes: NodeChange<Shown>[]) => {
    const dragged = new Map<string, Point>();
    const keyed = new Map<string, Point>();
    const measured = new Map<string, Size>();
    for (const one of changes) {
      // All others have one size. To take theirs would draw them anew, and that would measure them anew.
      if (one.type === "dimensions" && one.dimensions && present()?.folded.includes(one.id))
        measured.set(one.id, one.dimensions);
      if (one.type !== "position" || !one.position) continue;
      if (one.dragging) dragged.set(one.id, one.position);
      // Arrow keys move without a drag; they report their places here alone.
      else if (!dragging.current) keyed.set(one.id, one.position);
    }
    const isNew = (now: typeof sizes) =>
      [...measured].some(([id, { height }]) => now.get(id)?.height !== height);
    setSizes((now) => (isNew(now) ? new Map([...now, ...measured]) : now));
    if (dragged.size > 0) setMoving((now) => new Map([...now, ...dragged]));
    if (keyed.size > 0) moved(keyed);
    pick(changes);
  }, []);
  const dragging = useRef(false);
  const boxing = useRef(false);

  const onEdgesChange = useCallback((changes: EdgeChange[]) => {
    // A box chooses states. React Flow would choose all their lines with them.
    pick(changes.filter((one) => !(boxing.current && one.type === "select" && one.selected)));
  }, []);

  // React Flow learns of a pressed key a frame later. The event itself knows it at once.
  const flowStore = useStoreApi();
  const takeModifiers = useCallback((event: Modifiers) => {
    const multiSelectionActive = event.shiftKey || event.ctrlKey || event.metaKey;
    flowStore.setState({ multiSelectionActive });
  }, []);

  const onConnect = useCallback((made: Connection) => void connect(made.source, made.target), []);
  const onConnectEnd = useCallback((event: MouseEvent | TouchEvent, made: FinalConnectionState) => {
    if (made.isValid || made.toNode || !made.fromNode || made.fromHandle?.type !== "source") return;
    const point = "changedTouches" in event ? event.changedTouches[0]! : event;
    const at = flow.screenToFlowPosition({ x: point.clientX, y: point.clientY });
    const start = made.from;
    if (start && Math.hypot(at.x - start.x, at.y - start.y) < 30) return;
    void addState(made.fromNode.id, { x: Math.round(at.x), y: Math.round(at.y - HEIGHT / 2) });
  }, []);

  if (shown.length === 0 && graph && graph.nodes.length > 0) return null;
  return (
    <ReactFlow
      key={path}
      defaultViewport={firstView(shown, ways, frame)}
      nodes={shown}
      edges={ways}
      nodeTypes={nodeTypes}
      edgeTypes={edgeTypes}
      onPointerDownCapture={takeModifiers}
      onClickCapture={takeModifiers}
      onKeyDownCapture={takeModifiers}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      onNodeDragStart={() => {
        dragging.current = true;
      }}
      onNodeDragStop={(_event, _node, all) => {
        dragging.current = false;
        moved(new Map(all.map((one) => [one.id, one.position])));
        setMoving(NOWHERE);
      }}
      onSelectionStart={() => {
        boxing.current = true;
      }}
      onSelectionEnd={() => {
        boxing.current = false;
      }}
      onNodeDoubleClick={() => openPanel("details")}
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
      elevateNodesOnSelect={false}
      proOptions={{ hideAttribution: true }}
      aria-label="Canvas"
    >
      <Background gap={24} size={1} color="var(--dots)" />
      <Controls showInteractive={false} />
      {shown.length > FEW && <Overview places={positions ?? NOWHERE} />}
    </ReactFlow>
  );
}

const markOf = (covered: Set<string> | null, pointer: string): string => {
  if (!covered) return "";
  return covered.has(pointer) ? "covered" : "missed";
};

/** Show a machine whole if it can be read then; else from its first state on. */
function firstView(shown: readonly Shown[], ways: readonly WayEdge[], frame: Size): Viewport {
  const states = shown.map(({ position, height = HEIGHT }) => ({
    ...position,
    width: WIDTH,
    height,
  }));
  const labels = ways.map(({ data }) => {
    const { x, y, width, height } = data!.route.label;
    return { x: x - width / 2, y: y - height / 2, width, height };
  });
  const boxes = [...states, ...labels];
  if (boxes.length === 0) return { x: 0, y: 0, zoom: 1 };
  const left = Math.min(...boxes.map((one) => one.x));
  const top = Math.min(...boxes.map((one) => one.y));
  const width = Math.max(...boxes.map((one) => one.x + one.width)) - left;
  const height = Math.max(...boxes.map((one) => one.y + one.height)) - top;
  const room = { width: frame.width - MARGIN, height: frame.height - TOOLS - MARGIN / 2 };
  const whole = Math.min(room.width / width, room.height / height, 1);
  const across = (zoom: number) => (frame.width - width * zoom) / 2 - left * zoom;
  const down = (zoom: number) => TOOLS + (room.height - height * zoom) / 2 - top * zoom;
  if (whole >= READABLE) return { x: across(whole), y: down(whole), zoom: whole };
  const zoom = FIRST_ZOOM;
  const first = shown.find((one) => one.type === "state" && one.data.node.initial) ?? shown[0];
  const at = first?.position ?? { x: left, y: top };
  if (lastLayout()?.direction === "LR") {
    const y = height * zoom <= room.height ? down(zoom) : frame.height / 2 - at.y * zoom;
    return { x: MARGIN - at.x * zoom, y, zoom };
  }
  const x = width * zoom <= room.width ? across(zoom) : frame.width / 2 - (at.x + WIDTH / 2) * zoom;
  return { x, y: TOOLS - at.y * zoom, zoom };
}

/** Return true for a state that can be seen whole, so that the picture need not move. */
function isInView(at: Point, zoom: number): boolean {
  const frame = document.querySelector(".canvas")!.getBoundingClientRect();
  const isWide = at.x >= frame.left && at.x + WIDTH * zoom <= frame.right;
  return isWide && at.y >= frame.top && at.y + HEIGHT * zoom <= frame.bottom;
}

/**
 * Take what React Flow proposes to select, for clicks, keys and boxes. The store alone has the selection:
 * React Flow draws it and proposes changes, but never reports what it draws.
 */
function pick(changes: readonly (NodeChange<Shown> | EdgeChange)[]): void {
  const proposed = changes.flatMap((one) =>
    one.type === "select" && one.id !== EVERYWHERE ? [one] : [],
  );
  if (proposed.length === 0) return;
  // A transition from everywhere is no line of React Flow, which so never proposes to leave it.
  const free = new Set(edges().flatMap((one) => (one.source === null ? [one.id] : [])));
  const chosen = new Set(getState().selected.filter((id) => !free.has(id)));
  for (const one of proposed) {
    if (one.selected) chosen.add(one.id);
    else chosen.delete(one.id);
  }
  select([...chosen]);
}

function moved(places: Positions): void {
  const now = present()?.positions;
  const changed = [...places]
    .filter(([id]) => id !== EVERYWHERE)
    .map(([id, at]) => [id, { x: Math.round(at.x), y: Math.round(at.y) }] as const)
    .filter(([id, at]) => now?.get(id)?.x !== at.x || now?.get(id)?.y !== at.y);
  if (changed.length === 0) return;
  const what = changed.length === 1 ? changed[0]![0] : `${changed.length} states`;
  place(new Map(changed), `Move ${what}`);
}

/** Return places for states that came without one, such as from the text: behind what leads to them. */
function besides(
  lost: readonly GraphNode[],
  edges: readonly GraphEdge[],
  known: Positions,
): Positions {
  const taken = new Map(known);
  const made = new Map<string, Point>();
  for (const one of lost) {
    const way = edges.find(({ source, target }) => target === one.id && taken.has(source ?? ""));
    const at = freePlace(way?.source ?? null, taken);
    taken.set(one.id, at);
    made.set(one.id, at);
  }
  return made;
}

export default function Canvas() {
  const selected = useStudio((state) => state.selected);
  const isJson = useStudio((state) => present(state)?.checked.is_json ?? true);
  const chosen = selected.length === 1 && !isEdge(selected[0]!) ? selected[0]! : null;
  const [isLaying, setLaying] = useState(false);
  const [frame, setFrame] = useState<Size | null>(null);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => setFrame(box.current!.getBoundingClientRect()), []);
  return (
    <div class="canvas" ref={box} aria-busy={isLaying} data-chosen={chosen ?? undefined}>
      {!isJson && (
        <p class="banner" role="status">
          The text is not JSON at the moment. This is the last picture of it; mend the text to go
          on.
        </p>
      )}
      {frame && (
        <ReactFlowProvider>
          <Picture frame={frame} setLaying={setLaying} />
        </ReactFlowProvider>
      )}
      {isLaying && (
        <div class="laying" role="status">
          Placing states…
        </div>
      )}
    </div>
  );
}
