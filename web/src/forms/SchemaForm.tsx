// Forms made from a JSON Schema. A field writes its value when it is left; that is one step of undo.
import { useId, useRef, useState } from "preact/hooks";
import { setValue } from "../state/studio";
import { nodes } from "../state/actions";
import { type Schema, alternatives, enumOf, propertiesOf } from "../state/schema";
import { ConditionField } from "./Condition";
import { isObject, join, own } from "./pointers";
import { contextKeys, findingsAt } from "./values";

interface FieldProps {
  readonly name: string;
  readonly schema: Schema;
  readonly pointer: string;
  readonly value: unknown;
  /** Takes the value in place of the document. A condition of a list is written with its list. */
  readonly onCommit?: Commit;
}

/** Takes a value. The promise of null says that it was not taken, such as by a server that does not answer. */
type Commit = (value: unknown) => unknown;

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

export function Faults({
  pointer,
  id,
  isDeep,
}: {
  pointer: string;
  id?: string;
  isDeep?: boolean;
}) {
  const found = findingsAt(pointer, isDeep);
  if (found.length === 0) return null;
  return (
    <ul class="faults" id={id}>
      {found.map((one) => (
        <li class={one.level} key={one.code + one.pointer + one.message}>
          {one.message}
          {one.hint && <small> {one.hint}</small>}
        </li>
      ))}
    </ul>
  );
}

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
  const { name, schema, pointer, value } = props;
  const id = useId();
  const commit =
    props.onCommit ?? ((next: unknown) => setValue(`Change ${words(name)}`, pointer, next));
  const kind = kindOf(name, schema);
  const about = alternatives(schema)[0]?.description ?? schema.description ?? "";
  const help = schema.description ?? about;
  const faults = findingsAt(pointer, kind !== "rows");
  const shared = {
    id,
    "aria-describedby": `${id}-help ${id}-faults`,
    "aria-invalid": faults.some((one) => one.level === "error") || undefined,
  };
  if (kind === "rows") return <Rows {...props} />;
  if (kind === "logic") return <ConditionField value={value} onCommit={commit} pointer={pointer} />;
  if (kind === "flag") {
    return (
      <div class="field flag">
        <input
          {...shared}
          type="checkbox"
          checked={value === undefined || value === null ? schema.default === true : value === true}
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
      <Input kind={kind} {...props} shared={shared} commit={commit} listId={`${id}-list`} />
      {help && <small id={`${id}-help`}>{help}</small>}
      <Faults pointer={pointer} id={`${id}-faults`} isDeep />
    </div>
  );
}

interface InputProps extends FieldProps {
  readonly kind: Kind;
  readonly shared: { id: string };
  readonly commit: Commit;
  readonly listId: string;
}

function Input({ kind, name, schema, value, shared, commit, listId }: InputProps) {
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
        text={value === undefined || value === null ? "" : String(value)}
        placeholder={schema.default === undefined ? "" : String(schema.default)}
        type="number"
        onDone={(text) => commit(text === "" ? undefined : Number(text))}
      />
    );
  }
  if (kind === "list") {
    const names = KEYS.includes(name) ? contextKeys() : [];
    return <Tags shared={shared} value={value} commit={commit} names={names} listId={listId} />;
  }
  if (kind === "lines") {
    return (
      <Draft
        shared={shared}
        isLong
        text={Array.isArray(value) ? value.join("\n") : String(value ?? "")}
        onDone={(text) => commit(linesOf(text, value))}
      />
    );
  }
  if (kind === "words") {
    const isTarget = TARGETS.includes(name);
    const isLong = ["reply", "description", "persona", "objective"].includes(name);
    return (
      <>
        <Draft
          shared={shared}
          isLong={isLong}
          text={
            typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value)
          }
          list={isTarget ? listId : undefined}
          onDone={(text) => commit(text === "" ? undefined : text)}
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
  return <JsonInput shared={shared} value={value} commit={commit} />;
}

/** Keep the form of the text: lines as a list stay a list. */
function linesOf(text: string, before: unknown): unknown {
  if (text === "") return undefined;
  return Array.isArray(before) ? text.split("\n") : text;
}

interface DraftProps {
  readonly shared: object;
  readonly text: string;
  readonly onDone: (text: string) => unknown;
  readonly isLong?: boolean;
  readonly placeholder?: string;
  readonly type?: "text" | "number";
  readonly list?: string;
}

/**
 * Return what hands a text over. It answers false for one that was not taken, which stays in its field.
 * Enter and then the blur hand over the same text: the second one is not sent.
 */
function useTaking(onDone: (text: string) => unknown): (text: string) => Promise<boolean> {
  const sent = useRef<string | null>(null);
  return async (text) => {
    if (sent.current === text) return false;
    sent.current = text;
    try {
      return (await onDone(text)) !== null;
    } finally {
      sent.current = null;
    }
  };
}

/** A text that is taken when its field is left, or by Enter in a field of one line. */
export function Draft({ shared, text, onDone, isLong, placeholder, type, list }: DraftProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const isGone = useRef(false);
  const take = useTaking(onDone);
  const done = async () => {
    const isTaken = draft !== null && draft !== text && !isGone.current;
    isGone.current = false;
    if (isTaken && !(await take(draft))) return;
    setDraft((now) => (now === draft ? null : now));
  };
  const common = {
    ...shared,
    value: draft ?? text,
    placeholder,
    onInput: (event: { currentTarget: { value: string } }) => setDraft(event.currentTarget.value),
    onBlur: () => void done(),
  };
  const escape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || draft === null) return;
    isGone.current = true;
    setDraft(null);
    event.stopPropagation();
  };
  if (isLong) {
    const rows = Math.min(8, Math.max(2, Math.ceil(((draft ?? text).length || 1) / 48)));
    return <textarea {...common} rows={rows} onKeyDown={escape} />;
  }
  return (
    <input
      {...common}
      type={type ?? "text"}
      list={list}
      step="any"
      autocomplete="off"
      onKeyDown={(event) => {
        escape(event);
        if (event.key === "Enter") {
          event.preventDefault();
          void done();
        }
      }}
    />
  );
}

interface TagsProps {
  readonly shared: { id: string };
  readonly value: unknown;
  readonly commit: Commit;
  readonly names: readonly string[];
  readonly listId: string;
}

function Tags({ shared, value, commit, names, listId }: TagsProps) {
  const given = Array.isArray(value) ? value.map(String) : [];
  const [draft, setDraft] = useState("");
  const take = useTaking((name) => commit([...given, name]));
  const add = async () => {
    const name = draft.trim();
    if (name && !given.includes(name) && !(await take(name))) return;
    setDraft((now) => (now === draft ? "" : now));
  };
  return (
    <div class="tags">
      {given.map((one) => (
        <button
          key={one}
          type="button"
          aria-label={`Remove ${one}`}
          onClick={() => {
            const rest = given.filter((other) => other !== one);
            commit(rest.length > 0 ? rest : undefined);
          }}
        >
          {one} ×
        </button>
      ))}
      <input
        {...shared}
        value={draft}
        list={listId}
        placeholder="Add…"
        autocomplete="off"
        onInput={(event) => setDraft(event.currentTarget.value)}
        onBlur={() => void add()}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          void add();
        }}
      />
      <datalist id={listId}>
        {names.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </div>
  );
}

interface JsonInputProps {
  readonly shared: object;
  readonly value: unknown;
  readonly commit: Commit;
}

export function JsonInput({ shared, value, commit }: JsonInputProps) {
  const [fault, setFault] = useState("");
  return (
    <>
      <Draft
        shared={{ ...shared, class: "code", spellcheck: false }}
        isLong
        text={value === undefined ? "" : JSON.stringify(value, null, 1)}
        onDone={(text) => {
          let value: unknown;
          try {
            value = text.trim() === "" ? undefined : JSON.parse(text);
          } catch (error) {
            setFault(`Not taken: ${(error as Error).message}`);
            return null;
          }
          setFault("");
          return commit(value);
        }}
      />
      {fault && (
        <p class="faults error" role="alert">
          {fault}
        </p>
      )}
    </>
  );
}

/** A list of objects: each a form of its own. */
function Rows({ name, schema, pointer, value, onCommit }: FieldProps) {
  const list = alternatives(schema).find((one) => one.type === "array");
  const given = Array.isArray(value) ? value : [];
  const commit = onCommit ?? ((next: unknown) => setValue(`Change ${words(name)}`, pointer, next));
  const properties = propertiesOf(list?.items ?? null);
  const first = Object.keys(properties)[0] ?? "name";
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
              onCommit={
                onCommit && ((next) => commit(given.map((one, n) => (n === index ? next : one))))
              }
            />
          ) : (
            <Field
              name={first}
              schema={{ type: "string" }}
              pointer={join(pointer, index)}
              value={row}
            />
          )}
          <button
            type="button"
            class="small"
            onClick={() => {
              const rest = given.filter((_, n) => n !== index);
              if (onCommit) commit(rest.length > 0 ? rest : undefined);
              else if (rest.length > 0)
                void setValue(`Remove one of ${words(name)}`, join(pointer, index), undefined);
              else commit(undefined);
            }}
          >
            Remove
          </button>
        </fieldset>
      ))}
      <button type="button" class="small" onClick={() => commit([...given, { [first]: "" }])}>
        Add to {words(name)}
      </button>
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
  readonly onCommit?: (value: Record<string, unknown>) => unknown;
}

export function Fields({ properties, pointer, value, main, hidden = [], onCommit }: FieldsProps) {
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
      onCommit={
        onCommit &&
        ((next) => {
          const { [name]: _, ...others } = value;
          return onCommit(next === undefined ? others : { ...value, [name]: next });
        })
      }
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
