// A condition: built of rows, written as an expression or as JsonLogic, and tried against an example at once.
import { useId, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { ConditionAnswer } from "../api/types";
import { getState } from "../state/store";
import {
  type Group,
  OPERATORS,
  type Part,
  type Row,
  groupOf,
  isGroup,
  logicOf,
  valueOf,
  withPart,
} from "../state/conditions";
import { setValue } from "../state/gestures";
import { useLatest } from "../state/observed";
import { Faults } from "./Faults";
import { Draft, JsonInput, type Reading, valueWithHeld } from "./inputs";
import { contextKeys, keySchema } from "./values";
import { Press } from "../views/Buttons";
import { Code } from "../views/Code";
import { Select } from "../views/Select";

const examplePlace = () => `llm-fsm-example:${getState().path}`;

const LABEL = "Change logic";
const GROUPS = Object.entries({ and: "All of these", or: "One of these" });

export function ConditionField({ value, pointer }: { value: unknown; pointer: string }) {
  const id = useId();
  const [example, setExample] = useState(() => localStorage.getItem(examplePlace()) ?? "{}");
  const [answer, setAnswer] = useState<ConditionAnswer | null>(null);
  const [fault, setFault] = useState("");
  const whole = groupOf(value);
  const written = JSON.stringify(value ?? null);

  useLatest([written, example], (isWanted) => {
    if (value === undefined || value === null) {
      setAnswer(null);
      return;
    }
    let context: Record<string, unknown>;
    try {
      context = JSON.parse(example) as Record<string, unknown>;
    } catch {
      setFault("The example is not JSON.");
      return;
    }
    setFault("");
    api
      .condition({ logic: value, context })
      .then((found) => isWanted() && setAnswer(found))
      .catch((error: Error) => isWanted() && setFault(error.message));
  });

  return (
    <fieldset class="condition">
      <legend>logic</legend>
      {whole && <Builder whole={whole} pointer={pointer} />}
      <details open={whole === null}>
        <summary>As text</summary>
        <label for={`${id}-words`}>Expression</label>
        <Draft
          shared={{ id: `${id}-words`, placeholder: "age >= 18 and name" }}
          place={{ pointer, label: LABEL, part: "expression" }}
          text={answer?.expression ?? ""}
          read={() => ({ form: "expression" })}
        />
        <label for={`${id}-json`}>JsonLogic</label>
        <JsonInput
          shared={{ id: `${id}-json` }}
          place={{ pointer, label: LABEL, part: "json" }}
          value={value}
        />
      </details>
      {value !== undefined && value !== null && (
        <>
          <label for={`${id}-try`}>Try it with this context</label>
          <Code
            id={`${id}-try`}
            rows={2}
            value={example}
            put={(text) => {
              setExample(text);
              localStorage.setItem(examplePlace(), text);
            }}
          />
          <output for={`${id}-try`} class={answer?.holds ? "holds" : "fails"}>
            {fault || outcome(answer)}
          </output>
        </>
      )}
      <Faults pointer={pointer} isDeep />
    </fieldset>
  );
}

function outcome(answer: ConditionAnswer | null): string {
  if (!answer) return "";
  if (answer.faults.length > 0) return answer.faults.join(" ");
  if (answer.error) return answer.error;
  return answer.holds ? "It is true with this context." : "It is not true with this context.";
}

/** Rows of a condition, in groups: all of them must be true, or one of them. */
function Builder({ whole, pointer }: { whole: Group; pointer: string }) {
  // A change that is still on its way to the document is what the next one changes.
  const sent = useRef<Group | null>(null);
  /** Return the condition with what its other fields hold. */
  const latest = () => sent.current ?? groupOf(valueWithHeld(pointer)) ?? whole;
  const commit = async (next: Group) => {
    sent.current = next;
    await setValue(LABEL, pointer, logicOf(next));
    if (sent.current === next) sent.current = null;
  };
  const changed = (path: readonly number[], change: (part: Part) => Part | null): Group =>
    withPart({ op: "and", parts: [latest()] }, [0, ...path], change).parts[0] as Group;
  const row = (one: Row, path: readonly number[]) => {
    const name = path.map((n) => n + 1).join(".");
    const read = (part: Partial<Row>): Reading => ({
      value: logicOf(changed(path, (old) => ({ ...(old as Row), ...part }))),
    });
    const place = (part: string) => ({ pointer, label: LABEL, part: `${part} ${name}` });
    const put = (part: Partial<Row>) =>
      void commit(changed(path, (old) => ({ ...(old as Row), ...part })));
    const schema = keySchema(one.key);
    const values = schema["type"] === "boolean" ? [true, false] : schema["enum"];
    return (
      <>
        <Draft
          shared={{ "aria-label": `Key ${name}` }}
          place={place("key")}
          text={one.key}
          names={contextKeys()}
          read={(key) => read({ key })}
        />
        <Select
          aria-label={`Comparison ${name}`}
          value={one.op}
          options={[...OPERATORS]}
          choose={(op) => put({ op })}
        />
        {one.op !== "has_context" && Array.isArray(values) && (
          <Select
            aria-label={`Value ${name}`}
            value={String(one.value ?? "")}
            options={[...new Set(["", ...values.map(String), String(one.value ?? "")])]}
            choose={(text) => put({ value: valueOf(text, schema) })}
          />
        )}
        {one.op !== "has_context" && !Array.isArray(values) && (
          <Draft
            shared={{ "aria-label": `Value ${name}` }}
            place={place("value")}
            text={one.value === null ? "" : String(one.value)}
            read={(text) => read({ value: valueOf(text, schema) })}
          />
        )}
      </>
    );
  };
  const added = (group: Part, part: Part): Part =>
    isGroup(group) ? { ...group, parts: [...group.parts, part] } : group;
  const group = (one: Group, path: readonly number[]) => {
    const name = path.map((n) => n + 1).join(".");
    const add = (part: Part) => void commit(changed(path, (old) => added(old, part)));
    const other = one.op === "and" ? "or" : "and";
    return (
      <>
        {one.parts.length > 1 && (
          <Select
            aria-label={name ? `Group ${name}` : "All or one"}
            value={one.op}
            options={GROUPS}
            choose={() => commit(changed(path, (old) => ({ ...(old as Group), op: other })))}
          />
        )}
        {one.parts.map((part, index) => {
          const inner = [...path, index];
          const place = inner.map((n) => n + 1).join(".");
          return (
            <div class={isGroup(part) ? "builder-group" : "builder-row"} key={index}>
              {index > 0 && <span>{one.op}</span>}
              {isGroup(part) ? group(part, inner) : row(part, inner)}
              <Press
                class="small"
                aria-label={`Remove comparison ${place}`}
                run={() => commit(changed(inner, () => null))}
                label="×"
              />
            </div>
          );
        })}
        <Press class="small" run={() => add(fresh())} label="Add a comparison" />{" "}
        {one.parts.length > 0 && (
          <Press
            class="small"
            run={() => add({ op: other, parts: [fresh(), fresh()] })}
            label="Add a group"
          />
        )}
      </>
    );
  };
  return <div class="builder">{group(whole, [])}</div>;
}

const fresh = (): Row => ({ key: contextKeys()[0] ?? "key", op: "has_context", value: null });
