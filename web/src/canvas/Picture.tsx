// The machine as a picture: states by kind, transitions with their conditions in words.
import {
  Background,
  type Connection,
  Controls,
  type EdgeChange,
  MarkerType,
  type NodeChange,
  ReactFlow,
  type FinalConnectionState,
  useReactFlow,
  useStoreApi,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { GraphNode } from "../api/types";
import { kindWords } from "../views/kinds";
import { addState, connect, firstLayout, insertState, onReveal, repoint } from "../state/actions";
import { grouped } from "../state/grouped";
import { openMenu } from "../state/menus";
import { type Positions, getState, openPanel, present, select, useStudio } from "../state/store";
import { fill } from "../state/versions";
import { changesOf } from "./changes";
import { foldedGraph } from "./folding";
import { EVERYWHERE, directionOf, freeCorner, labelOf, lastLayout } from "./layout";
import { Overview } from "./Overview";
import {
  type EverywhereNode,
  HANDLES,
  type Shown,
  type StateNode,
  type WayEdge,
  edgeTypes,
  nodeTypes,
} from "./parts";
import { besides, moved, pick } from "./proposals";
import { routeOf } from "./route";
import { HEIGHT, type LaidOut, MANY, type Point, type Route, type Size, WIDTH } from "./shapes";
import { firstView, isInView } from "./viewport";

/** A picture of so few states needs no map. */
const FEW = 12;
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

const MARK_WORDS: Record<string, string> = {
  added: " It is new.",
  changed: " It is changed.",
  removed: " It was removed.",
  lit: " The conversation is here.",
  covered: " The tests reach it.",
  missed: " The tests miss it.",
};

/** Return what the picture of a state says, colours included, in words. */
function wordsOf(node: GraphNode, marks: readonly string[], hidden: number): string {
  const told = marks.map((one) => MARK_WORDS[one] ?? "").join("");
  const group = hidden > 0 ? ` ${hidden} more states are folded into it.` : "";
  return `State ${node.id}, ${kindWords(node.kind)}.${told}${group} ${node.purpose}`;
}

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

export function Picture({
  frame,
  setLaying,
}: {
  frame: Size;
  setLaying: (isLaying: boolean) => void;
}) {
  const flow = useReactFlow();
  const version = useStudio(present);
  const path = useStudio((state) => state.path);
  const selected = useStudio((state) => state.selected);
  const lit = useStudio((state) => state.lit);
  // The layout is kept outside; a new one draws the picture anew.
  const [, setLaid] = useState<LaidOut | null>(null);
  const [moving, setMoving] = useState<Positions>(NOWHERE);
  const [sizes, setSizes] = useState<ReadonlyMap<string, Size>>(new Map());
  const changes = useMemo(() => {
    const graph = version?.checked.graph;
    return graph && lit.before ? changesOf(lit.before, graph) : null;
  }, [version?.checked.graph, lit.before]);
  const whole = changes?.graph ?? version?.checked.graph;
  const positions = version?.positions;
  const folded = version?.folded;
  const groups = useMemo(() => whole && foldedGraph(whole, folded ?? []), [whole, folded]);
  const graph = groups?.graph;

  // States without a place get one: all of them at once if none has one, else beside a neighbour.
  useEffect(() => {
    if (!whole || !positions) return;
    const lost = whole.nodes.filter((one) => !positions.has(one.id));
    const isSmall = whole.nodes.length <= MANY;
    if (lost.length === 0) {
      // Places that dagre chose get dagre's lines, also when the file is opened again.
      if (isSmall && lastLayout() === null && whole.nodes.length > 0)
        void firstLayout().then(setLaid);
      return;
    }
    const { path: asked, at } = getState();
    if (isBeingLaid === asked) return;
    if (whole.nodes.some((one) => positions.has(one.id))) {
      fill(besides(lost, whole.edges, positions));
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
  }, [whole, positions]);

  const layout = lastLayout();
  const direction =
    layout?.direction ?? directionOf(graph?.edges ?? [], positions ?? NOWHERE) ?? "TB";
  const keptStates = useKept<StateNode>();
  const shown = useMemo((): Shown[] => {
    if (!graph || !positions) return [];
    const known = new Set(selected);
    const covered = lit.covered && new Set(lit.covered);
    const open = new Set(folded);
    const inside = grouped([...(groups?.boxes ?? [])], ([, box]) => box);
    const litBox = groups?.boxes.get(lit.state ?? "") ?? lit.state;
    const states: StateNode[] = [];
    for (const node of graph.nodes) {
      const place = moving.get(node.id) ?? positions.get(node.id);
      if (!place) continue;
      const isSelected = known.has(node.id);
      const isOpen = open.has(node.id) && node.kind === "subflow";
      const hidden = inside.get(node.id)?.length ?? 0;
      const figure = lit.figures?.[node.pointer] ?? "";
      const lights = `${litBox === node.id ? "lit" : ""} ${markOf(covered, node.pointer)}`;
      const marks = `${lights} ${changes?.marks.get(node.id) ?? ""}`;
      const size = isOpen ? sizes.get(node.id) : undefined;
      const parts = [node, place, isSelected, isOpen, hidden, figure, marks, size, direction];
      const made = keptStates(node.id, parts, () => ({
        id: node.id,
        type: "state",
        position: place,
        width: WIDTH,
        height: isOpen ? undefined : HEIGHT,
        // All others have this size. Fit counts states that were not drawn yet by it.
        measured: size ?? { width: WIDTH, height: HEIGHT },
        handles: HANDLES[direction],
        selected: isSelected,
        ariaLabel: wordsOf(node, marks.split(" "), hidden),
        data: { node, lit: marks, figure, isOpen, hidden, direction },
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
      measured: { width: WIDTH, height },
      data: {
        edges: free,
        patterns: graph.patterns,
        selected: selected[0] ?? "",
        marks: changes?.marks,
      },
    };
    return [...states, all];
  }, [graph, changes, positions, moving, sizes, selected, lit, folded, direction]);

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
      // A layout of all states has no line for a transition that begins or ends at another box now.
      const isBent = groups?.bent.has(edge.id) && layout?.positions.size !== graph?.nodes.length;
      const laid = isBent ? null : layout;
      const ends = [places.get(edge.source), places.get(edge.target), laid];
      const route = keptRoutes(edge.id, ends, () => routeOf(edge, places, laid));
      if (!route) continue;
      const isSelected = known.has(edge.id);
      const figure = lit.figures?.[edge.pointer] ?? "";
      const lights = `${taken.has(edge.pointer) ? "lit" : ""} ${markOf(covered, edge.pointer)}`;
      const marks = `${lights} ${changes?.marks.get(edge.id) ?? ""}`;
      const parts = [edge, route, isSelected, figure, marks];
      const made = keptWays(edge.id, parts, () => ({
        id: edge.id,
        type: "way",
        source: edge.source!,
        target: edge.target,
        selected: isSelected,
        reconnectable: edge.how === "picked" || edge.how === "auto",
        markerEnd: ARROW,
        // Preact writes the name as React Flow does, `tabIndex`, which means nothing in SVG.
        domAttributes: { tabindex: 0 } as WayEdge["domAttributes"],
        ariaLabel: `Transition from ${edge.source} to ${edge.target}. ${labelOf(edge)}`,
        data: { edge, route, lit: marks, figure },
      }));
      found.push(made);
    }
    return found;
  }, [graph, changes, moving, positions, layout, selected, lit]);

  useEffect(() => {
    onReveal((id) => {
      const at = present()?.positions.get(id);
      const label = flow.getEdge(id)?.data as WayEdge["data"] | undefined;
      const box = label?.route.label ?? (at && { x: at.x + WIDTH / 2, y: at.y + HEIGHT / 2 });
      if (box && !isInView(flow, box))
        void flow.setCenter(box.x, box.y, { zoom: 1, duration: 200 });
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
      onMove={(_event, { zoom }) => thicken(zoom)}
      onPaneClick={() => select([])}
      onPaneContextMenu={(event) => {
        openMenu(null, event, flow.screenToFlowPosition({ x: event.clientX, y: event.clientY }));
      }}
      onNodeContextMenu={(event, { id }) => openMenu(id === EVERYWHERE ? null : id, event)}
      onEdgeContextMenu={(event, { id }) => openMenu(id, event)}
      onSelectionContextMenu={(event, all) => openMenu(all[0]?.id ?? null, event)}
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

/** Draw lines as thick on the screen as they are at half size, so that a whole large machine is seen. */
function thicken(zoom: number): void {
  const thickness = Math.max(1, Math.round(0.5 / zoom));
  document.querySelector<HTMLElement>(".canvas")!.style.setProperty("--thick", `${thickness}`);
}

const markOf = (covered: Set<string> | null, pointer: string): string => {
  if (!covered) return "";
  return covered.has(pointer) ? "covered" : "missed";
};
