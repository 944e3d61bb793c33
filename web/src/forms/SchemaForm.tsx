// Forms made from a JSON Schema. A field that is left is one step of undo.
import { useId, useState } from "preact/hooks";
import { setValue } from "../state/gestures";
import { nodes } from "../state/machine";
import { type Schema, alternatives, enumOf, propertiesOf } from "../state/schema";
import { ConditionField } from "./Condition";
import { Faults } from "./Faults";
import { Draft, JsonInput, type Place, type Reading, Tags } from "./inputs";
import { isObject, join, own } from "./pointers";
import { contextKeys, findingsAt } from "./values";
import { Press } from "../views/Buttons";

interface FieldProps {
  readonly name: string;
  readonly schema: Schema;
  readonly pointer: string;
  readonly value: unknown;
}

const TARGETS = ["target_state", "initial_state", "on_timeout", "on_exhausted"];
const KEYS = [
  "required_context_keys",
  "requires_context_keys",
  "confirms",
  "clear",
  "x-from",
  "read",
];

const words = (name: string) => name.replace(/^x-/, "").replace(/_/g, " ");

type Kind = "flag" | "choice" | "number" | "lines" | "words" | "list" | "rows" | "logic" | "json";

function kindOf(name: string, schema: Schema): Kind {
  if (name === "logic") return "logic";
  const many = alternatives(schema);
  const types = many.map((one) => one.type);
  if (types.includes("boolean") && many.length === 1) return "flag";
  if (enumOf(schema).length > 0 && types.every((one) => one !== "array")) return "choice";
  if (types.length > 0 && types.every((one) => one === "integer" || one === "number")) {
    return "number";
  }
  const list = many.find((one) => one.type === "array");
  if (types.includes("string")) return list ? "lines" : "words";
  if (!list?.items) return "json";
  const items = alternatives(list.items);
  if (items.some((one) => one.properties)) return "rows";
  return items.every((one) => one.type === "string") ? "list" : "json";
}

export function Field(props: FieldProps) {
  const { name, schema, pointer } = props;
  const id = useId();
  // What was chosen is shown until the document has it: a page drawn meanwhile takes nothing back.
  const [wanted, setWanted] = useState<{ readonly value: unknown }>();
  const value = wanted ? wanted.value : props.value;
  const label = `Change ${words(name)}`;
  const commit = (next: unknown) => {
    setWanted({ value: next });
    void setValue(label, pointer, next).finally(() => setWanted(undefined));
  };
  const kind = kindOf(name, schema);
  const help = schema.description ?? alternatives(schema)[0]?.description ?? "";
  const faults = findingsAt(pointer, kind !== "rows");
  const shared = {
    id,
    "aria-describedby": `${id}-help ${id}-faults`,
    "aria-invalid": faults.some((one) => one.level === "error") || undefined,
  };
  if (kind === "rows") return <Rows {...props} />;
  if (kind === "logic") return <ConditionField value={value} pointer={pointer} />;
  if (kind === "flag") {
    return (
      <div class="field flag">
        <input
          {...shared}
          type="checkbox"
          checked={(value ?? schema.default) === true}
          onChange={(event) => commit(event.currentTarget.checked ? true : undefined)}
        />
        <label for={id}>{words(name)}</label>
        <small id={`${id}-help`}>{help}</small>
        <Faults pointer={pointer} id={`${id}-faults`} />
      </div>
    );
  }
  return (
    <div class="field">
      <label for={id}>{words(name)}</label>
      <Input
        kind={kind}
        {...props}
        value={value}
        place={{ pointer, label }}
        shared={shared}
        commit={commit}
        listId={`${id}-list`}
      />
      {help && <small id={`${id}-help`}>{help}</small>}
      <Faults pointer={pointer} id={`${id}-faults`} isDeep />
    </div>
  );
}

interface InputProps extends FieldProps {
  readonly kind: Kind;
  readonly place: Place;
  readonly shared: { id: string };
  readonly commit: (value: unknown) => void;
  readonly listId: string;
}

const textRead = (text: string): Reading => ({ value: text === "" ? undefined : text });
const numberRead = (text: string): Reading => ({ value: text === "" ? undefined : Number(text) });

function Input({ kind, name, schema, value, place, shared, commit, listId }: InputProps) {
  if (kind === "choice") {
    const all = enumOf(schema);
    return (
      <select
        {...shared}
        value={value === undefined ? "" : String(value)}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          commit(chosen === "" ? undefined : all.find((one) => String(one) === chosen));
        }}
      >
        <option value="">
          {schema.default === undefined ? "–" : `${schema.default} (default)`}
        </option>
        {all.map((one) => (
          <option key={String(one)}>{String(one)}</option>
        ))}
      </select>
    );
  }
  if (kind === "number") {
    return (
      <Draft
        shared={shared}
        place={place}
        text={value === undefined || value === null ? "" : String(value)}
        placeholder={schema.default === undefined ? "" : String(schema.default)}
        type="number"
        read={numberRead}
      />
    );
  }
  if (kind === "list") {
    const names = KEYS.includes(name) ? contextKeys() : [];
    return <Tags {...{ shared, place, value, commit, names, listId }} />;
  }
  if (kind === "lines") {
    return (
      <Draft
        shared={shared}
        place={place}
        isLong
        text={Array.isArray(value) ? value.join("\n") : String(value ?? "")}
        read={(text) => ({ value: linesOf(text, value) })}
      />
    );
  }
  if (kind === "words") {
    const isTarget = TARGETS.includes(name);
    return (
      <>
        <Draft
          shared={shared}
          place={place}
          isLong={["reply", "description", "persona", "objective"].includes(name)}
          text={typeof value === "string" ? value : (JSON.stringify(value) ?? "")}
          list={isTarget ? listId : undefined}
          read={textRead}
        />
        {isTarget && (
          <datalist id={listId}>
            {nodes().map((one) => (
              <option key={one.id} value={one.id} />
            ))}
          </datalist>
        )}
      </>
    );
  }
  return <JsonInput shared={shared} place={place} value={value} />;
}

/** Keep the form of the text: lines as a list stay a list. */
function linesOf(text: string, before: unknown): unknown {
  if (text === "") return undefined;
  return Array.isArray(before) ? text.split("\n") : text;
}

/** A list of objects: each a form of its own. */
function Rows({ name, schema, pointer, value }: FieldProps) {
  const list = alternatives(schema).find((one) => one.type === "array");
  const given = Array.isArray(value) ? value : [];
  const properties = propertiesOf(list?.items ?? null);
  const first = Object.keys(properties)[0] ?? "name";
  // An element is added to what the document has by then, fields of the others included.
  const add = () => {
    const label = `Change ${words(name)}`;
    if (given.length === 0) void setValue(label, pointer, [{ [first]: "" }]);
    else void setValue(label, `${pointer}/-`, { [first]: "" });
  };
  return (
    <fieldset class="rows">
      <legend>{words(name)}</legend>
      {schema.description && <small>{schema.description}</small>}
      <Faults pointer={pointer} />
      {given.map((row, index) => (
        <fieldset key={index}>
          <legend>
            {words(name)} {index + 1}
          </legend>
          {isObject(row) ? (
            <Fields
              properties={properties}
              pointer={join(pointer, index)}
              value={row}
              main={Object.keys(properties)}
            />
          ) : (
            <Field
              name={first}
              schema={{ type: "string" }}
              pointer={join(pointer, index)}
              value={row}
            />
          )}
          <Press
            class="small"
            run={() => {
              const gone = given.length > 1 ? join(pointer, index) : pointer;
              void setValue(`Remove one of ${words(name)}`, gone, undefined);
            }}
            label="Remove"
          />
        </fieldset>
      ))}
      <Press class="small" run={add}>
        Add to {words(name)}
      </Press>
    </fieldset>
  );
}

interface FieldsProps {
  readonly properties: Readonly<Record<string, Schema>>;
  readonly pointer: string;
  readonly value: Record<string, unknown>;
  /** Names that are shown although they are not set. All others are under "More". */
  readonly main: readonly string[];
  readonly hidden?: readonly string[];
}

export function Fields({ properties, pointer, value, main, hidden = [] }: FieldsProps) {
  const names = Object.keys(properties).filter((name) => !hidden.includes(name));
  const isShown = (name: string) => main.includes(name) || own(value, name) !== undefined;
  const shown = [
    ...main.filter((name) => names.includes(name)),
    ...names.filter((name) => !main.includes(name) && isShown(name)),
  ];
  const rest = names.filter((name) => !isShown(name));
  const unknown = Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
  const field = (name: string) => (
    <Field
      key={name}
      name={name}
      schema={properties[name] ?? {}}
      pointer={join(pointer, name)}
      value={value[name]}
    />
  );
  return (
    <>
      {shown.map(field)}
      {unknown
        .filter((name) => !hidden.includes(name))
        .map((name) => (
          <Field
            key={name}
            name={name}
            schema={{ description: "A key that the format does not know. It is kept." }}
            pointer={join(pointer, name)}
            value={value[name]}
          />
        ))}
      {rest.length > 0 && (
        <details class="more">
          <summary>More fields ({rest.length})</summary>
          {rest.map(field)}
        </details>
      )}
    </>
  );
}
