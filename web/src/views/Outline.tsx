// The machine as a list. Everything can be done here with the keyboard and with a screen reader.
import { useState } from "preact/hooks";
import { addState } from "../state/actions";
import { grouped } from "../state/grouped";
import { openDetails, present, useStudio } from "../state/store";
import type { GraphEdge, GraphNode } from "../api/types";
import { kindWords } from "./kinds";
import { Invitation, Steps } from "./Steps";
import { walk } from "./rows";
import { Press } from "./Buttons";

/** States that are listed before the rest is asked for. */
const MOST = 300;

export default function Outline() {
  const version = useStudio(present);
  const selected = useStudio((state) => state.selected);
  const lit = useStudio((state) => state.lit.state);
  const [wanted, setWanted] = useState("");
  const [most, setMost] = useState(MOST);
  if (!version) return null;
  const { nodes, edges } = version.checked.graph;
  const bySource = grouped(edges, (one) => one.source);
  const words = wanted.trim().toLowerCase();
  const matches = (node: GraphNode) =>
    words === "" || `${node.id} ${node.purpose} ${node.kind}`.toLowerCase().includes(words);
  const found = nodes.filter(matches);
  const free = bySource.get(null) ?? [];
  const way = (edge: GraphEdge) => (
    <li key={edge.id}>
      <Press
        aria-current={selected[0] === edge.id}
        run={() => openDetails(edge.id)}
        onKeyDown={step}
      >
        → {edge.target} {edge.level && <span class={`fault ${edge.level}`}>{edge.level}</span>}
        <small>{edge.label || edge.words}</small>
      </Press>
    </li>
  );
  return (
    <div class="outline">
      <div class="line">
        <label>
          Filter
          <input value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        </label>
      </div>
      <div class="buttons">
        <Steps />
        <Press run={() => addState(null)}>Add state</Press>
        <Press run={() => openDetails()}>Machine</Press>
      </div>
      <Invitation />
      <ol class="states" aria-label="States">
        {found.slice(0, most).map((node) => (
          <li key={node.id} class={lit === node.id ? "lit" : ""}>
            <Press
              aria-current={selected[0] === node.id}
              run={() => openDetails(node.id)}
              onKeyDown={step}
            >
              <b>{node.id}</b> <span class={`kind kind-${node.kind}`}>{kindWords(node.kind)}</span>
              {node.initial && <span class="start">begins</span>}
              {node.level && <span class={`fault ${node.level}`}>{node.level}</span>}
              <small>{node.purpose || node.reply}</small>
            </Press>
            <ul aria-label={`Transitions of ${node.id}`}>
              {(bySource.get(node.id) ?? []).map(way)}
            </ul>
          </li>
        ))}
      </ol>
      {found.length > most && (
        <Press run={() => setMost(most + MOST)}>Show more of {found.length} states</Press>
      )}
      {free.length > 0 && (
        <>
          <h2>From everywhere</h2>
          <ul class="states" aria-label="Transitions from everywhere">
            {free.map(way)}
          </ul>
        </>
      )}
    </div>
  );
}

function step(event: KeyboardEvent): void {
  walk(event, (event.currentTarget as Element).closest(".outline")!, ".states button");
}
