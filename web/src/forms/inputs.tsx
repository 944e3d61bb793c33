// Inputs of the document. What is typed is held from its first letter, and taken when the field is left, saved or undone.
import { useId } from "preact/hooks";
import type { Translation } from "../api/types";
import { hold, release, settle } from "../state/gestures";
import { type Held, getState, useStudio } from "../state/store";
import { valueAt } from "./values";
import { Press } from "../views/Buttons";

/** What a text means: a value, an expression that the server reads, or why it means nothing. */
export type Reading =
  | { readonly value: unknown }
  | { readonly fault: string }
  | { readonly form: "expression" }
  | { readonly form: "translation"; readonly value: Translation };

/** Where a field writes to. Fields of one value have names of their own. */
export interface Place {
  readonly pointer: string;
  readonly label: string;
  readonly part?: string;
}

const keyOf = ({ pointer, part = "" }: Place): string => `${pointer}#${part}`;

/** Return the value at a pointer with what other fields of it hold. */
export function valueWithHeld(pointer: string): unknown {
  const held = [...getState().held.values()].filter((one) => one.pointer === pointer);
  const read = held.filter((one) => one.fault === "" && one.form === "value");
  return read.length > 0 ? read.at(-1)!.value : valueAt(pointer);
}

interface DraftProps {
  readonly shared: object;
  readonly place: Place;
  /** The text of the document. */
  readonly text: string;
  readonly read: (text: string) => Reading;
  readonly isLong?: boolean;
  readonly placeholder?: string;
  readonly type?: "text" | "number";
  /** Names to pick from. */
  readonly names?: readonly string[] | undefined;
}

type Typed = HTMLInputElement | HTMLTextAreaElement;

/** A text of the document. Escape gives back what the document has. */
export function Draft(props: DraftProps) {
  const { shared, place, text, read, isLong, placeholder, type, names } = props;
  const list = useId();
  const key = keyOf(place);
  const held = useStudio((state) => state.held.get(key));
  const shown = held?.text ?? text;
  const onInput = (event: { currentTarget: Typed }) => {
    const { value, validity } = event.currentTarget;
    if (value === text && !validity.badInput) {
      release(key);
      return;
    }
    const reading = validity.badInput ? { fault: "This is no number." } : read(value);
    const about = { label: place.label, pointer: place.pointer, text: value };
    hold(key, { form: "value", fault: "", ...about, ...reading } as Held);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && held !== undefined) {
      release(key);
      event.stopPropagation();
    }
    if (event.key === "Enter" && !isLong) {
      event.preventDefault();
      void settle();
    }
  };
  const common = {
    ...shared,
    value: shown,
    placeholder,
    "data-field": key,
    onInput,
    onKeyDown,
    onBlur: () => void settle(),
  };
  const rows = Math.min(8, Math.max(2, Math.ceil((shown.length || 1) / 48)));
  return (
    <>
      {isLong ? (
        <textarea {...common} rows={rows} />
      ) : (
        <input
          {...common}
          type={type ?? "text"}
          list={names && list}
          step="any"
          autocomplete="off"
        />
      )}
      {names && (
        <datalist id={list}>
          {names.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {held?.isTold && (
        <p class="faults error" role="alert">
          Not taken: {held.fault}
        </p>
      )}
    </>
  );
}

interface TagsProps {
  readonly shared: { id: string };
  readonly place: Place;
  readonly value: unknown;
  readonly commit: (value: unknown) => unknown;
  readonly names: readonly string[];
}

const textsOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

/** A list of names, and a field for the next one. */
export function Tags({ shared, place, value, commit, names }: TagsProps) {
  const given = textsOf(value);
  const read = (text: string): Reading => {
    const name = text.trim();
    if (given.includes(name)) return { fault: `${name} is in the list already.` };
    return { value: name === "" ? value : [...given, name] };
  };
  return (
    <div class="tags">
      {given.map((one) => (
        <Press
          key={one}
          aria-label={`Remove ${one}`}
          run={() => {
            const rest = given.filter((other) => other !== one);
            commit(rest.length > 0 ? rest : undefined);
          }}
        >
          {one} ×
        </Press>
      ))}
      <Draft {...{ shared, place, read, names }} text="" placeholder="Add…" />
    </div>
  );
}

export function JsonInput({
  shared,
  place,
  value,
}: Omit<DraftProps, "text" | "read"> & { value: unknown }) {
  const read = (text: string): Reading => {
    if (text.trim() === "") return { value: undefined };
    try {
      return { value: JSON.parse(text) as unknown };
    } catch (error) {
      return { fault: (error as Error).message };
    }
  };
  return (
    <Draft
      shared={{ ...shared, class: "code", spellcheck: false }}
      place={place}
      isLong
      text={value === undefined ? "" : JSON.stringify(value, null, 1)}
      read={read}
    />
  );
}
