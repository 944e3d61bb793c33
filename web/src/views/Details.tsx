// The form of what is selected: a state, a transition, or the machine.
import { useState } from "preact/hooks";
import type { GraphEdge, GraphNode } from "../api/types";
import { CONTEXT_KEY, WORKFLOW, WORKFLOW_STATE } from "../forms/workflow";
import { Faults } from "../forms/Faults";
import { Fields } from "../forms/SchemaForm";
import { isObject, join, own } from "../forms/pointers";
import { valueAt } from "../forms/values";
import {
  addState,
  askRepoint,
  connect,
  duplicate,
  insertState,
  remove,
  rename,
  reveal,
  showInText,
} from "../state/actions";
import { isEdge, isWorkflow } from "../state/machine";
import { keyGesture } from "../state/steps";
import { definitionOf, propertiesOf, rootSchema } from "../state/schema";
import { gesture, setValue } from "../state/gestures";
import { present, select, useStudio } from "../state/store";
import { fold } from "../state/versions";

const MAIN: Record<string, readonly string[]> = {
  converse: ["kind", "purpose", "instructions", "required_context_keys", "reply"],
  decide: ["kind", "purpose"],
  task: ["kind", "purpose", "instructions", "execute", "tools", "key_results", "max_retries"],
  wait: ["kind", "purpose", "reply", "wait_for", "timeout", "on_timeout", "answer_schema"],
  subflow: ["kind", "purpose", "flow", "input", "output"],
  final: ["kind", "purpose", "reply", "outcome"],
};

export function Details() {
  const version = useStudio(present);
  const selected = useStudio((state) => state.selected);
  // The schema comes with the settings. A form without it would lose what is typed when it comes.
  const isReady = useStudio((state) => state.settings !== null);
  if (!version || !isReady) return null;
  const { graph } = version.checked;
  const id = selected[0];
  if (selected.length > 1) return <Several ids={selected} />;
  const edge = id !== undefined && isEdge(id) ? graph.edges.find((one) => one.id === id) : null;
  if (edge) return <TransitionForm key={edge.id} edge={edge} />;
  const node = graph.nodes.find((one) => one.id === id);
  if (node) return <StateForm key={node.id} node={node} edges={graph.edges} />;
  return <MachineForm />;
}

function Several({ ids }: { ids: readonly string[] }) {
  return (
    <section aria-label="Selection">
      <h2>{ids.length} selected</h2>
      <div class="buttons">
        <button type="button" onClick={() => void duplicate(ids)}>
          Duplicate
        </button>
        <button type="button" onClick={() => void remove(ids)}>
          Delete
        </button>
      </div>
    </section>
  );
}

export function StateForm({ node, edges }: { node: GraphNode; edges: readonly GraphEdge[] }) {
  const value = valueAt(node.pointer);
  const outward = edges.filter((one) => one.source === node.id);
  const inward = edges.filter((one) => one.target === node.id && one.source !== node.id);
  if (node.kind === "unknown" || !isObject(value)) {
    return (
      <section aria-label={`State ${node.id}`}>
        <h2>{node.id}</h2>
        <p>There is no such state. A transition leads to it.</p>
        <button
          type="button"
          onClick={() => {
            const add = { do: "add_state" as const, id: node.id, value: { purpose: "" } };
            void gesture(`Add state ${node.id}`, [add]);
          }}
        >
          Add this state
        </button>
      </section>
    );
  }
  const isTask = isWorkflow();
  const properties = isTask ? propertiesOf(WORKFLOW_STATE) : propertiesOf(definitionOf("State"));
  const main = isTask ? Object.keys(properties) : (own(MAIN, node.kind) ?? MAIN["converse"]!);
  return (
    <section aria-label={`State ${node.id}`}>
      <h2>State {node.id}</h2>
      <div class="buttons">
        <button type="button" onClick={() => void addState(node.id)}>
          Add next state
        </button>
        <button type="button" onClick={() => void connect(node.id)}>
          Connect to…
        </button>
        <button type="button" onClick={() => void rename(node.id)}>
          Rename
        </button>
        <button type="button" onClick={() => void duplicate([node.id])}>
          Duplicate
        </button>
        <button type="button" onClick={() => void remove([node.id])}>
          Delete
        </button>
        <button type="button" onClick={() => showInText(node.pointer)}>
          Text
        </button>
        {!node.initial && !isTask && (
          <button
            type="button"
            onClick={() => void setValue("Change the first state", "/initial_state", node.id)}
          >
            Begin here
          </button>
        )}
        {node.kind === "subflow" && node.flow_exists && (
          <button type="button" onClick={() => fold(node.id)}>
            Fold or open
          </button>
        )}
      </div>
      <Faults pointer={node.pointer} />
      <EdgeList title="Ways on" edges={outward} isFrom />
      <Fields
        properties={properties}
        pointer={node.pointer}
        value={value}
        main={main}
        hidden={["id", "name", "transitions", "objective_", "position", "target_state"]}
      />
      <EdgeList title="Comes from" edges={inward} isFrom={false} />
    </section>
  );
}

interface EdgeListProps {
  readonly title: string;
  readonly edges: readonly GraphEdge[];
  readonly isFrom: boolean;
}

function EdgeList({ title, edges, isFrom }: EdgeListProps) {
  if (edges.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="ways">
        {edges.map((one) => (
          <li key={one.id}>
            <button type="button" onClick={() => reveal(one.id)}>
              {isFrom ? `→ ${one.target}` : `${one.source ?? "everywhere"} →`}{" "}
              <small>{one.label || one.words}</small>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

export function TransitionForm({ edge }: { edge: GraphEdge }) {
  const value = valueAt(edge.pointer);
  const title = `${edge.source ?? "everywhere"} → ${edge.target}`;
  const isForm = isObject(value) && edge.how !== "timeout" && edge.how !== "exhausted";
  return (
    <section aria-label={`Transition ${title}`}>
      <h2>{title}</h2>
      <div class="buttons">
        <button type="button" onClick={() => void askRepoint(edge.id)}>
          Lead to…
        </button>
        <button type="button" onClick={() => void insertState(edge.id)}>
          Insert a state
        </button>
        <button type="button" onClick={() => void remove([edge.id])}>
          Delete
        </button>
        <button type="button" onClick={() => showInText(edge.pointer)}>
          Text
        </button>
        {edge.source !== null && (
          <button type="button" onClick={() => select([edge.source!])}>
            Its state
          </button>
        )}
      </div>
      <Faults pointer={edge.pointer} />
      {isForm && !isWorkflow() ? (
        <Fields
          properties={propertiesOf(definitionOf("Transition"))}
          pointer={edge.pointer}
          value={value}
          main={["target_state", "description", "conditions", "priority"]}
        />
      ) : (
        <p>
          {edge.how === "timeout" && "Taken when the time is over."}
          {edge.how === "exhausted" && "Taken when no attempt is left."}
          {isWorkflow() && (edge.label ? `Branch ${edge.label}` : "The only way on.")}
        </p>
      )}
    </section>
  );
}

export function MachineForm() {
  const value = valueAt("");
  const [name, setName] = useState("");
  if (!isObject(value)) return <p>The text is not an object. Mend it in the text view.</p>;
  if (isWorkflow()) {
    return (
      <section aria-label="Workflow">
        <h2>Workflow</h2>
        <Fields
          properties={propertiesOf(WORKFLOW)}
          pointer=""
          value={value}
          main={["objective"]}
          hidden={["states", "transitions", "version"]}
        />
      </section>
    );
  }
  const keys = valueAt("/context_schema/properties");
  const given = isObject(keys) ? keys : {};
  const add = () => {
    if (!name.trim()) return;
    const key = name.trim();
    setName("");
    void gesture(`Add key ${key}`, [keyGesture(key, { type: "string" })]);
  };
  return (
    <section aria-label="Machine">
      <h2>Machine</h2>
      <Fields
        properties={propertiesOf(rootSchema())}
        pointer=""
        value={value}
        main={["name", "description", "persona", "initial_state", "language", "patterns"]}
        hidden={["states", "context_schema", "global_transitions", "$schema", "ui", "x-lint"]}
      />
      <h3>Keys of the context</h3>
      {Object.entries(given).map(([key, schema]) => (
        <details class="more" key={key}>
          <summary>
            {key} <small>{isObject(schema) ? String(schema["type"] ?? "") : ""}</small>
          </summary>
          {isObject(schema) && (
            <Fields
              properties={propertiesOf(CONTEXT_KEY)}
              pointer={join("/context_schema/properties", key)}
              value={schema}
              main={["type", "title", "description", "enum", "x-source", "x-said", "x-valid"]}
            />
          )}
          <button
            type="button"
            class="small"
            onClick={() =>
              void setValue(`Delete key ${key}`, join("/context_schema/properties", key), undefined)
            }
          >
            Delete key {key}
          </button>
        </details>
      ))}
      <form
        class="line"
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <label>
          New key
          <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button>Add key</button>
      </form>
      <button type="button" onClick={() => void connect(null)}>
        Add a transition from everywhere
      </button>
    </section>
  );
}
