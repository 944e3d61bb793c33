// What a sub-flow does, drawn small inside its state. A double click opens its file.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Graph } from "../api/types";
import { openFile } from "../state/files";
import { layOut } from "./layout";
import { pathOf } from "./route";
import { HEIGHT, type LaidOut, WIDTH, boundsOf } from "./shapes";
import { Press } from "../views/Buttons";

export function SubflowPicture({ flow }: { flow: string }) {
  const [drawn, setDrawn] = useState<{ graph: Graph; made: LaidOut } | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    api
      .open(flow)
      .then(async ({ checked: { graph } }) => {
        setDrawn({ graph, made: await layOut(graph.nodes, graph.edges) });
      })
      .catch((error: Error) => setProblem(error.message));
  }, [flow]);
  if (!drawn) return <p class="purpose">{problem || "Opening…"}</p>;
  const places = [...drawn.made.positions];
  const { right, bottom } = boundsOf(places.map(([, at]) => at));
  return (
    <figure class="subflow">
      <svg viewBox={`-4 -4 ${right + 8} ${bottom + 8}`} role="img" aria-label={`States of ${flow}`}>
        {[...drawn.made.routes].map(([id, route]) => (
          <path key={id} d={pathOf(route.points)} />
        ))}
        {places.map(([id, at]) => (
          <g key={id}>
            <rect x={at.x} y={at.y} width={WIDTH} height={HEIGHT} rx="10" />
            <text x={at.x + WIDTH / 2} y={at.y + HEIGHT / 2 + 10} text-anchor="middle">
              {id}
            </text>
          </g>
        ))}
      </svg>
      <Press class="nodrag small" run={() => openFile(flow)}>
        Open {flow}
      </Press>
    </figure>
  );
}
