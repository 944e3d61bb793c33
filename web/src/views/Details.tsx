// The form of what is selected: a state, a transition, or the machine.
import type { GraphEdge, GraphNode } from "../api/types";
import { Faults } from "../forms/Faults";
import { Fields } from "../forms/SchemaForm";
import schemas from "../forms/schemas.json";
import { isObject, join, own } from "../forms/pointers";
import { LanguagePicker } from "../forms/Translated";
import { valueAt } from "../forms/values";
import { connect, reveal } from "../state/actions";
import { isEdge, isWorkflow } from "../state/machine";
import { edgeActions, severalActions, stateActions } from "../state/menus";
import { keyGesture } from "../state/steps";
import { type Schema, definitionOf, propertiesOf, rootSchema } from "../state/schema";
import { gesture, setValue } from "../state/gestures";
import { present, useStudio } from "../state/store";
import { Buttons, Press } from "./Buttons";
import { askText } from "./dialogs";

/** The forms that no published JSON Schema describes. */
const FORMS: Readonly<Record<keyof typeof schemas, Schema>> = schemas;

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
  if (selected.length > 1) {
    return (
      <section aria-label="Selection">
        <h2>{selected.length} selected</h2>
        <Buttons actions={severalActions(selected)} />
      </section>
    );
  }
  const edge = id !== undefined && isEdge(id) ? graph.edges.find((one) => one.id === id) : null;
  const node = graph.nodes.find((one) => one.id === id);
  return (
    <>
      <LanguagePicker />
      {edge && <TransitionForm key={edge.id} edge={edge} />}
      {node && <StateForm key={node.id} node={node} edges={graph.edges} />}
      {!edge && !node && <MachineForm />}
    </>
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
        <Press
          run={() => {
            const add = { do: "add_state" as const, id: node.id, value: { purpose: "" } };
            void gesture(`Add state ${node.id}`, [add]);
          }}
          label="Add this state"
        />
      </section>
    );
  }
  const isTask = isWorkflow();
  const properties = isTask
    ? propertiesOf(FORMS.workflowState)
    : propertiesOf(definitionOf("State"));
  const main = isTask ? Object.keys(properties) : (own(MAIN, node.kind) ?? MAIN["converse"]!);
  return (
    <section aria-label={`State ${node.id}`}>
      <h2>State {node.id}</h2>
      <Buttons actions={stateActions(node)} />
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
            <Press run={() => reveal(one.id)}>
              {isFrom ? `→ ${one.target}` : `${one.source ?? "everywhere"} →`}{" "}
              <small>{one.label || one.words}</small>
            </Press>
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
      <Buttons actions={edgeActions(edge)} />
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
  if (!isObject(value)) return <p>The text is not an object. Mend it in the text view.</p>;
  if (isWorkflow()) {
    const hidden = ["states", "transitions", "version"];
    const properties = propertiesOf(FORMS.workflow);
    return (
      <section aria-label="Workflow">
        <h2>Workflow</h2>
        <Fields {...{ properties, value, hidden }} pointer="" main={["objective"]} />
      </section>
    );
  }
  const keys = valueAt("/context_schema/properties");
  const given = isObject(keys) ? keys : {};
  const add = async () => {
    const key = await askText("Add a key", "Name", "", "Add");
    if (key !== null) await gesture(`Add key ${key}`, [keyGesture(key, { type: "string" })]);
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
        <KeyForm key={key} name={key} schema={schema} />
      ))}
      <div class="buttons">
        <Press run={add}>Add a key</Press>
        <Press run={() => connect(null)}>Add a transition from everywhere</Press>
      </div>
    </section>
  );
}

function KeyForm({ name, schema }: { name: string; schema: unknown }) {
  const pointer = join("/context_schema/properties", name);
  const label = `Delete key ${name}`;
  return (
    <details class="more">
      <summary>
        {name} <small>{isObject(schema) ? String(schema["type"] ?? "") : ""}</small>
      </summary>
      {isObject(schema) && (
        <Fields
          properties={propertiesOf(FORMS.contextKey)}
          pointer={pointer}
          value={schema}
          main={["type", "title", "description", "enum", "x-source", "x-said", "x-valid"]}
        />
      )}
      <Press class="small" run={() => setValue(label, pointer, undefined)} label={label} />
    </details>
  );
}
