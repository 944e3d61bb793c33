// Forms made from a JSON Schema. A field that is left is one step of undo.
import { useId, useState } from "preact/hooks";
import { setValue } from "../state/gestures";
import { TARGETS, nodes } from "../state/machine";
import { useStudio } from "../state/store";
import { type Schema, alternatives, enumOf, propertiesOf } from "../state/schema";
import { ConditionField } from "./Condition";
import { Faults } from "./Faults";
import { Translated } from "./Translated";
import { Draft, JsonInput, type Place, Tags } from "./inputs";
import { isObject, join, own } from "./pointers";
import { contextKeys, findingsAt } from "./values";
import { Press } from "../views/Buttons";
import { Select } from "../views/Select";

interface FieldProps {
  readonly name: string;
  readonly schema: Schema;
  readonly pointer: string;
  readonly value: unknown;
}

const LONG = ["reply", "description", "persona", "objective"];
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
  const language = useStudio((state) => state.language);
  const rows = useStudio((state) => (language ? state.texts?.rows : null));
  const row = rows?.find((one) => one.pointer === pointer);
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
  const place = { pointer, label };
  return (
    <div class={`field ${kind}`}>
      <label for={id}>
        {words(name)} {row && language}
      </label>
      {row ? (
        <Translated row={row} tag={language} shared={shared} />
      ) : (
        <Input {...props} {...{ kind, value, place, shared, commit }} />
      )}
      {help && <small id={`${id}-help`}>{row?.text ?? help}</small>}
      <Faults pointer={pointer} id={`${id}-faults`} isDeep />
    </div>
  );
}

interface InputProps extends FieldProps {
  readonly kind: Kind;
  readonly place: Place;
  readonly shared: { id: string };
  readonly commit: (value: unknown) => void;
}

function Input({ kind, name, schema, value, place, shared, commit }: InputProps) {
  if (kind === "flag") {
    return (
      <input
        {...shared}
        type="checkbox"
        checked={(value ?? schema.default) === true}
        onChange={(event) => commit(event.currentTarget.checked ? true : undefined)}
      />
    );
  }
  if (kind === "choice") {
    const all = enumOf(schema);
    return (
      <Select
        {...shared}
        value={value === undefined ? "" : String(value)}
        options={[
          ["", schema.default === undefined ? "–" : `${schema.default} (default)`],
          ...all.map(String),
        ]}
        choose={(chosen) =>
          commit(chosen === "" ? undefined : all.find((one) => String(one) === chosen))
        }
      />
    );
  }
  if (kind === "list") {
    const names = KEYS.includes(name) ? contextKeys() : [];
    return <Tags {...{ shared, place, value, commit, names }} />;
  }
  if (kind === "json") return <JsonInput shared={shared} place={place} value={value} />;
  const isNumber = kind === "number";
  return (
    <Draft
      shared={shared}
      place={place}
      type={isNumber ? "number" : "text"}
      placeholder={isNumber ? String(schema.default ?? "") : ""}
      isLong={kind === "lines" || LONG.includes(name)}
      text={wordsOf(value)}
      names={TARGETS.includes(name) ? nodes().map((one) => one.id) : undefined}
      read={(text) => ({ value: isNumber ? numberOf(text) : linesOf(text, value) })}
    />
  );
}

function wordsOf(value: unknown): string {
  if (Array.isArray(value)) return value.join("\n");
  return typeof value === "string" ? value : (JSON.stringify(value ?? undefined) ?? "");
}

const numberOf = (text: string) => (text === "" ? undefined : Number(text));

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

const UNKNOWN: Schema = { description: "A key that the format does not know. It is kept." };

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
      schema={properties[name] ?? UNKNOWN}
      pointer={join(pointer, name)}
      value={value[name]}
    />
  );
  return (
    <>
      {[...shown, ...unknown.filter((name) => !hidden.includes(name))].map(field)}
      {rest.length > 0 && (
        <details class="more">
          <summary>More fields ({rest.length})</summary>
          {rest.map(field)}
        </details>
      )}
    </>
  );
}
