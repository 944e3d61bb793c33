// Questions of the page, one at a time: a name, a choice, a yes.
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { observed } from "../state/observed";
import { walk } from "./rows";
import { Press } from "./Buttons";
import { Select } from "./Select";

export interface Option {
  readonly value: string;
  readonly label: string;
  readonly hint?: string;
}

/** A field of a form. `when` shows it only while another one has a value, or the value that is named. */
export interface FormField {
  readonly name: string;
  readonly label: string;
  readonly value?: string;
  readonly hint?: string;
  readonly options?: readonly string[];
  readonly required?: boolean;
  readonly isLong?: boolean;
  readonly when?: readonly [name: string, value?: string];
}

type Answers = Readonly<Record<string, string>>;

interface Question {
  readonly kind: "text" | "choice" | "yes" | "form" | "page";
  readonly title: string;
  readonly label: string;
  readonly value: string;
  readonly action: string;
  readonly options: readonly Option[];
  readonly fields: readonly FormField[];
  readonly done: (answer: string | null) => void;
}

const opened = observed<Question | null>(null);

function ask(part: Partial<Question> & { title: string }): Promise<string | null> {
  opened.get()?.done(null);
  const rest = { label: "", value: "", action: "OK", options: [], fields: [] };
  return new Promise((resolve) => {
    const done = (answer: string | null) => {
      opened.put(null);
      resolve(answer);
    };
    opened.put({ kind: "text", ...rest, ...part, done });
  });
}

export const askText = (title: string, label: string, value = "", action = "OK") =>
  ask({ kind: "text", title, label, value, action });

/** Ask for one of some options. `later` brings newer ones; the question does not wait for them. */
export function askChoice(
  title: string,
  label: string,
  options: readonly Option[],
  later?: Promise<readonly Option[]>,
): Promise<string | null> {
  const answer = ask({ kind: "choice", title, label, options });
  const asked = opened.get();
  void later?.then((newer) => {
    if (asked !== null && opened.get()?.done === asked.done)
      opened.put({ ...asked, options: newer });
  });
  return answer;
}

/** Ask for several values at once. */
export async function askForm(
  title: string,
  action: string,
  fields: readonly FormField[],
): Promise<Answers | null> {
  const answer = await ask({ kind: "form", title, action, fields });
  return answer === null ? null : (JSON.parse(answer) as Answers);
}

/** Show rows to read, such as the keys of the page. */
export const showPage = (title: string, options: readonly Option[]) =>
  ask({ kind: "page", title, options, action: "Close" });

export const askYes = async (title: string, label: string, action: string) =>
  (await ask({ kind: "yes", title, label, action })) !== null;

export function Dialogs() {
  const question = opened.use((one) => one);
  return question && <Asked key={question.title + question.value} question={question} />;
}

function Asked({ question }: { question: Question }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const before = useRef(document.activeElement as HTMLElement | null);
  const [value, setValue] = useState(question.value);
  const [answers, setAnswers] = useState(() => firstAnswers(question.fields));
  // The focus moves before the next key arrives, so that no letter is lost. An effect after painting is too late.
  useLayoutEffect(() => {
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLInputElement>("input, textarea")?.select();
    if (question.kind === "page") dialog.current?.querySelector("button")?.focus();
    return () => before.current?.focus?.();
  }, []);
  const wanted = value.trim().toLowerCase();
  const found = question.options
    .filter((one) => `${one.label} ${one.hint ?? ""}`.toLowerCase().includes(wanted))
    .slice(0, 50);
  const submit = (event: Event) => {
    event.preventDefault();
    if (question.kind === "choice") question.done(found[0]?.value ?? null);
    else if (question.kind === "form") question.done(JSON.stringify(answers));
    else if (question.kind !== "text") question.done("yes");
    else if (value.trim()) question.done(value.trim());
  };
  const move = (event: KeyboardEvent) => {
    if (event.key.startsWith("Arrow")) walk(event, dialog.current!, ".choices button");
  };
  return (
    <dialog
      ref={dialog}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        question.done(null);
      }}
      onKeyDown={move}
    >
      <form onSubmit={submit}>
        <h2 id="dialog-title">{question.title}</h2>
        {question.kind === "yes" && <p>{question.label}</p>}
        {question.kind === "page" && <Rows rows={question.options} />}
        {question.kind === "form" && (
          <FormFields
            fields={question.fields}
            answers={answers}
            put={(name, text) => setAnswers((now) => ({ ...now, [name]: text }))}
          />
        )}
        {(question.kind === "text" || question.kind === "choice") && (
          <label>
            {question.label}
            <input
              value={value}
              autocomplete="off"
              spellcheck={false}
              onInput={(event) => setValue(event.currentTarget.value)}
            />
          </label>
        )}
        {question.kind === "choice" && (
          <ul class="choices">
            {found.map((one) => (
              <li key={one.value}>
                <Press run={() => question.done(one.value)}>
                  <b>{one.label}</b> {one.hint && <small>{one.hint}</small>}
                </Press>
              </li>
            ))}
            {found.length === 0 && <li>Nothing found.</li>}
          </ul>
        )}
        <div class="buttons">
          {question.kind !== "page" && <Press run={() => question.done(null)}>Cancel</Press>}
          {question.kind !== "choice" && <button class="main">{question.action}</button>}
        </div>
      </form>
    </dialog>
  );
}

const firstAnswers = (fields: readonly FormField[]): Answers =>
  Object.fromEntries(fields.map((one) => [one.name, one.value ?? one.options?.[0] ?? ""]));

interface FormFieldsProps extends Pick<Question, "fields"> {
  readonly answers: Answers;
  readonly put: (name: string, text: string) => void;
}

function FormFields({ fields, answers, put }: FormFieldsProps) {
  const id = useId();
  const isShown = ({ when }: FormField) => {
    if (when === undefined) return true;
    const [name, wanted] = when;
    return wanted === undefined ? Boolean(answers[name]) : answers[name] === wanted;
  };
  return (
    <>
      {fields.filter(isShown).map((one) => {
        const key = `${id}-${one.name}`;
        const shared = { id: key, value: answers[one.name], required: one.required };
        const typing = {
          placeholder: one.hint,
          onInput: (event: { currentTarget: { value: string } }) =>
            put(one.name, event.currentTarget.value),
        };
        return (
          <div class="field" key={one.name}>
            <label for={key}>{one.label}</label>
            {one.options && (
              <Select {...shared} options={one.options} choose={(text) => put(one.name, text)} />
            )}
            {one.isLong && <textarea {...shared} {...typing} rows={3} />}
            {!one.options && !one.isLong && <input {...shared} {...typing} autocomplete="off" />}
          </div>
        );
      })}
    </>
  );
}

function Rows({ rows }: { rows: readonly Option[] }) {
  return (
    <dl class="keys" tabIndex={0}>
      {rows.map((one) => (
        <div key={one.value}>
          <dt>
            <kbd>{one.label}</kbd>
          </dt>
          <dd>{one.hint}</dd>
        </div>
      ))}
    </dl>
  );
}
