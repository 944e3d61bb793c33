// What React Flow draws: states, the box of transitions from everywhere, and lines with their labels.
import {
  BaseEdge,
  type Edge,
  EdgeLabelRenderer,
  type EdgeProps,
  Handle,
  type Node,
  type NodeProps,
  Position,
  useStore,
} from "@xyflow/react";
import type { GraphEdge, GraphNode } from "../api/types";
import { insertState } from "../state/actions";
import { openMenu } from "../state/menus";
import { openDetails } from "../state/store";
import { kindWords } from "../views/kinds";
import type { Changes } from "./changes";
import { LABEL_LINES, LABEL_WIDTH } from "./labels";
import { labelOf } from "./layout";
import { pathOf } from "./route";
import { type Direction, HEIGHT, type Point, type Route, WIDTH, boundsOf } from "./shapes";
import { SubflowPicture } from "./SubflowPicture";
import { Press } from "../views/Buttons";

const LABEL_ZOOM = 0.5;
const FAR = 2500;

export type StateNode = Node<
  {
    node: GraphNode;
    lit: string;
    figure: string;
    isOpen: boolean;
    hidden: number;
    direction: Direction;
  },
  "state"
>;
export type EverywhereNode = Node<
  { edges: GraphEdge[]; patterns: string[]; selected: string; marks: Changes["marks"] | undefined },
  "all"
>;
export type WayEdge = Edge<{ edge: GraphEdge; route: Route; lit: string; figure: string }, "way">;

/** What can be placed on the canvas. */
export type Shown = StateNode | EverywhereNode;

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
        {data.hidden > 0 && <span class="hidden-states">+{data.hidden}</span>}
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
        <Press
          key={one.id}
          class={`nodrag ${data.marks?.get(one.id) ?? ""} ${data.selected === one.id ? "chosen" : ""}`}
          title={one.label}
          run={() => openDetails(one.id)}
        >
          → {one.target} <small>{one.label}</small>
        </Press>
      ))}
      {data.patterns.length > 0 && <small>Patterns: {data.patterns.join(", ")}</small>}
    </div>
  );
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
            onContextMenu={(event) => openMenu(data.edge.id, event)}
            onClick={() => openDetails(data.edge.id)}
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
  return bounds.width + bounds.height > FAR;
};

export const nodeTypes = { state: StateBox, all: Everywhere };
export const edgeTypes = { way: Way };

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
export const HANDLES = { TB: handlesOf("TB"), LR: handlesOf("LR") };
