// The canvas: the picture of the machine, and what lies over it.
import { ReactFlowProvider } from "@xyflow/react";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { isEdge } from "../state/machine";
import { present, useStudio } from "../state/store";
import { Picture } from "./Picture";
import type { Size } from "./shapes";

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
