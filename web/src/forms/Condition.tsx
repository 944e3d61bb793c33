// A condition: built of rows, written as an expression or as JsonLogic, and tried against an example at once.
import { useEffect, useId, useState } from "preact/hooks";
import { api } from "../api/client";
import type { ConditionAnswer } from "../api/types";
import { getState } from "../state/studio";
import { Draft, Faults, JsonInput } from "./SchemaForm";
import { isObject } from "./pointers";
import { contextKeys } from "./values";

interface Row {
  readonly key: string;
  readonly op: string;
  readonly value: unknown;
}

const OPERATORS: Record<string, string> = {
  "==": "is",
  "!=": "is not",
  ">": "is more than",
  ">=": "is at least",
  "<": "is less than",
  "<=": "is at most",
  contains: "contains",
  has_context: "is known",
};

/** Return the rows of a condition; null if it is not of the builder's form. */
function rowsOf(logic: unknown): Row[] | null {
  if (logic === undefined || logic === null) return [];
  if (!isObject(logic)) return null;
  const [op, given] = Object.entries(logic)[0] ?? [];
  if (op === "and" && Array.isArray(given)) {
    const rows = given.map((one) => rowsOf(one));
    if (rows.some((one) => one === null || one.length !== 1)) return null;
    return rows.flatMap((one) => one ?? []);
  }
  if (op === "has_context" && typeof given === "string") return [{ key: given, op, value: null }];
  if (
    op === undefined ||
    !Object.hasOwn(OPERATORS, op) ||
    !Array.isArray(given) ||
    given.length !== 2
  ) {
    return null;
  }
  const [left, right] = given as [unknown, unknown];
  const key = isObject(left) ? left["var"] : null;
  if (typeof key !== "string" || isObject(right) || Array.isArray(right)) return null;
  return [{ key, op, value: right }];
}

function logicOf(rows: readonly Row[]): unknown {
  const parts = rows.map(({ key, op, value }) =>
    op === "has_context" ? { has_context: key } : { [op]: [{ var: key }, value] },
  );
  if (parts.length === 0) return undefined;
  return parts.length === 1 ? parts[0] : { and: parts };
}

function valueOf(text: string): unknown {
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  if (text === "true" || text === "false") return text === "true";
  return text;
}

const examplePlace = () => `llm-fsm-example:${getState().path}`;

interface Props {
  readonly value: unknown;
  readonly pointer: string;
  readonly onCommit: (value: unknown) => void;
}

export function ConditionField({ value, pointer, onCommit }: Props) {
  const id = useId();
  const [example, setExample] = useState(() => localStorage.getItem(examplePlace()) ?? "{}");
  const [answer, setAnswer] = useState<ConditionAnswer | null>(null);
  const [fault, setFault] = useState("");
  const rows = rowsOf(value);
  const written = JSON.stringify(value ?? null);

  useEffect(() => {
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
    let isOld = false;
    api
      .condition({ logic: value, context })
      .then((found) => isOld || setAnswer(found))
      .catch((error: Error) => isOld || setFault(error.message));
    return () => {
      isOld = true;
    };
  }, [written, example]);

  const readExpression = async (expression: string) => {
    if (expression.trim() === "") {
      onCommit(undefined);
      return;
    }
    try {
      const found = await api.condition({ expression });
      if (found.faults.length > 0) setFault(found.faults.join(" "));
      else onCommit(found.logic);
    } catch (error) {
      setFault((error as Error).message);
    }
  };

  return (
    <fieldset class="condition">
      <legend>logic</legend>
      {rows && (
        <Builder rows={rows} onCommit={(next) => onCommit(logicOf(next))} listId={`${id}-keys`} />
      )}
      <details open={rows === null}>
        <summary>As text</summary>
        <label for={`${id}-words`}>Expression</label>
        <Draft
          shared={{ id: `${id}-words`, placeholder: "age >= 18 and name" }}
          text={answer?.expression ?? ""}
          onDone={(text) => void readExpression(text)}
        />
        <label for={`${id}-json`}>JsonLogic</label>
        <JsonInput shared={{ id: `${id}-json` }} value={value} commit={onCommit} />
      </details>
      {value !== undefined && value !== null && (
        <>
          <label for={`${id}-try`}>Try it with this context</label>
          <textarea
            id={`${id}-try`}
            class="code"
            rows={2}
            spellcheck={false}
            value={example}
            onInput={(event) => {
              setExample(event.currentTarget.value);
              localStorage.setItem(examplePlace(), event.currentTarget.value);
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

interface BuilderProps {
  readonly rows: readonly Row[];
  readonly onCommit: (rows: readonly Row[]) => void;
  readonly listId: string;
}

function Builder({ rows, onCommit, listId }: BuilderProps) {
  const put = (index: number, part: Partial<Row>) =>
    onCommit(rows.map((one, n) => (n === index ? { ...one, ...part } : one)));
  return (
    <div class="builder">
      {rows.map((row, index) => (
        <div class="builder-row" key={index}>
          {index > 0 && <span>and</span>}
          <Draft
            shared={{ "aria-label": `Key ${index + 1}` }}
            text={row.key}
            list={listId}
            onDone={(key) => put(index, { key })}
          />
          <select
            aria-label={`Comparison ${index + 1}`}
            value={row.op}
            onChange={(event) => put(index, { op: event.currentTarget.value })}
          >
            {Object.entries(OPERATORS).map(([op, label]) => (
              <option key={op} value={op}>
                {label}
              </option>
            ))}
          </select>
          {row.op !== "has_context" && (
            <Draft
              shared={{ "aria-label": `Value ${index + 1}` }}
              text={row.value === null ? "" : String(row.value)}
              onDone={(text) => put(index, { value: valueOf(text) })}
            />
          )}
          <button
            type="button"
            class="small"
            aria-label={`Remove comparison ${index + 1}`}
            onClick={() => onCommit(rows.filter((_, n) => n !== index))}
          >
            ×
          </button>
        </div>
      ))}
      <button
        type="button"
        class="small"
        onClick={() => {
          const key = contextKeys()[0] ?? "key";
          onCommit([...rows, { key, op: "has_context", value: null }]);
        }}
      >
        Add a comparison
      </button>
      <datalist id={listId}>
        {contextKeys().map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </div>
  );
}
