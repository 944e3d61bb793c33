// The machine as a list. Everything can be done here with the keyboard and with a screen reader.
import { useState } from "preact/hooks";
import { addState } from "../state/actions";
import { openPanel, present, select, useStudio } from "../state/store";
import type { GraphEdge, GraphNode } from "../api/types";
import { kindWords } from "./kinds";
import { Invitation, Steps } from "./Steps";

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
  const bySource = new Map<string | null, GraphEdge[]>();
  for (const edge of edges) {
    const list = bySource.get(edge.source);
    if (list) list.push(edge);
    else bySource.set(edge.source, [edge]);
  }
  const words = wanted.trim().toLowerCase();
  const matches = (node: GraphNode) =>
    words === "" || `${node.id} ${node.purpose} ${node.kind}`.toLowerCase().includes(words);
  const found = nodes.filter(matches);
  const choose = (id?: string) => {
    select(id === undefined ? [] : [id]);
    openPanel("details");
  };
  const free = bySource.get(null) ?? [];
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
        <button type="button" onClick={() => void addState(null)}>
          Add state
        </button>
        <button type="button" onClick={() => choose()}>
          Machine
        </button>
      </div>
      <Invitation />
      <ol class="states" aria-label="States">
        {found.slice(0, most).map((node) => (
          <li key={node.id} class={lit === node.id ? "lit" : ""}>
            <button
              type="button"
              aria-current={selected[0] === node.id}
              onClick={() => choose(node.id)}
              onKeyDown={step}
            >
              <b>{node.id}</b> <span class={`kind kind-${node.kind}`}>{kindWords(node.kind)}</span>
              {node.initial && <span class="start">begins</span>}
              {node.level && <span class={`fault ${node.level}`}>{node.level}</span>}
              <small>{node.purpose || node.reply}</small>
            </button>
            <ul aria-label={`Transitions of ${node.id}`}>
              {(bySource.get(node.id) ?? []).map((edge) => (
                <Way key={edge.id} edge={edge} chosen={selected[0] === edge.id} choose={choose} />
              ))}
            </ul>
          </li>
        ))}
      </ol>
      {found.length > most && (
        <button type="button" onClick={() => setMost(most + MOST)}>
          Show more of {found.length} states
        </button>
      )}
      {free.length > 0 && (
        <>
          <h2>From everywhere</h2>
          <ul class="states" aria-label="Transitions from everywhere">
            {free.map((edge) => (
              <Way key={edge.id} edge={edge} chosen={selected[0] === edge.id} choose={choose} />
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

interface WayProps {
  readonly edge: GraphEdge;
  readonly chosen: boolean;
  readonly choose: (id: string) => void;
}

function Way({ edge, chosen, choose }: WayProps) {
  return (
    <li>
      <button type="button" aria-current={chosen} onClick={() => choose(edge.id)} onKeyDown={step}>
        → {edge.target} {edge.level && <span class={`fault ${edge.level}`}>{edge.level}</span>}
        <small>{edge.label || edge.words}</small>
      </button>
    </li>
  );
}

/** Arrow keys go from row to row, Home and End to the first and last one. */
function step(event: KeyboardEvent): void {
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 };
  const by = steps[event.key];
  if (by === undefined) return;
  const row = event.currentTarget as HTMLElement;
  const rows = [...row.closest(".outline")!.querySelectorAll<HTMLElement>(".states button")];
  const at = rows.indexOf(row) + by;
  rows[Math.max(0, Math.min(rows.length - 1, at))]?.focus();
  event.preventDefault();
}
