// Which part of the picture is in the window.
import type { ReactFlowInstance, Viewport } from "@xyflow/react";
import { lastLayout } from "./layout";
import type { Shown, WayEdge } from "./parts";
import { HEIGHT, type Point, type Size, WIDTH, boundsOf, boxOf } from "./shapes";

/** A whole machine is shown at this size at least; a larger one begins at its first state. */
const READABLE = 0.65;
const FIRST_ZOOM = 0.85;
const MARGIN = 48;
/** The height of the tools that lie over the picture. */
const TOOLS = 64;

/** Show a machine whole if it can be read then; else from its first state on. */
export function firstView(
  shown: readonly Shown[],
  ways: readonly WayEdge[],
  frame: Size,
): Viewport {
  const states = shown.map(({ position, height = HEIGHT }) => ({ ...position, height }));
  const labels = ways.map(({ data }) => boxOf(data!.route.label));
  if (states.length + labels.length === 0) return { x: 0, y: 0, zoom: 1 };
  const { left, top, width, height } = boundsOf([...states, ...labels]);
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

type Flow = Pick<ReactFlowInstance, "flowToScreenPosition" | "getZoom">;

/** Return true for a place of the picture that is well inside the window, so that it need not move. */
export function isInView(flow: Flow, place: Point): boolean {
  const { x, y } = flow.flowToScreenPosition(place);
  const { left, top, right, bottom } = document.querySelector(".canvas")!.getBoundingClientRect();
  const [halfX, halfY] = [(WIDTH / 2) * flow.getZoom(), (HEIGHT / 2) * flow.getZoom()];
  const isWide = x - halfX >= left && x + halfX <= right;
  return isWide && y - halfY >= top && y + halfY <= bottom;
}
