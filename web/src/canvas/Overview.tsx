// The whole machine, small: where the window is, and a way to elsewhere. One path for all states keeps it quick.
import { useReactFlow, useStore } from "@xyflow/react";
import { useMemo } from "preact/hooks";
import type { Positions } from "../state/store";
import { HEIGHT, WIDTH, boundsOf } from "./shapes";

export function Overview({ places }: { places: Positions }) {
  const flow = useReactFlow();
  const [x, y, zoom] = useStore((store) => store.transform);
  const width = useStore((store) => store.width);
  const height = useStore((store) => store.height);
  const bounds = useMemo(() => boundsOf([...places.values()]), [places]);
  const boxes = useMemo(
    () =>
      [...places.values()].map((at) => `M${at.x},${at.y}h${WIDTH}v${HEIGHT}h${-WIDTH}z`).join(""),
    [places],
  );
  const go = (event: PointerEvent & { currentTarget: SVGSVGElement }) => {
    if (event.buttons !== 1) return;
    const matrix = event.currentTarget.getScreenCTM();
    if (!matrix) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    void flow.setCenter(at.x, at.y, { zoom });
  };
  // The lines of the window are as thick in a large machine as in a small one.
  const stroke = Math.max(bounds.width / 200, bounds.height / 150) * 1.5;
  return (
    <svg
      class="overview"
      role="img"
      aria-label="Map"
      viewBox={`${bounds.left} ${bounds.top} ${bounds.width} ${bounds.height}`}
      onPointerDown={go}
      onPointerMove={go}
    >
      <path class="boxes" d={boxes} stroke-width={stroke} />
      <rect
        class="window"
        x={-x / zoom}
        y={-y / zoom}
        width={width / zoom}
        height={height / zoom}
        stroke-width={stroke}
      />
    </svg>
  );
}
