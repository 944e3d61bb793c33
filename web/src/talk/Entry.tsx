// What is said next: a message, a choice, or the answer that the conversation waits for.
import { useEffect, useState } from "preact/hooks";
import type { PausedRow } from "../api/types";
import { isObject } from "../forms/pointers";
import { answer, send, useTalk } from "./talk";
import { show } from "./Why";
import { Alert, Press } from "../views/Buttons";
import { Code } from "../views/Code";
import { Select } from "../views/Select";

export function Entry() {
  const { talk, isBusy } = useTalk();
  const [text, setText] = useState("");
  // Words that are entered while an answer still arrives are sent after it.
  const [isWaiting, setWaiting] = useState(false);
  const isPaused = Boolean(talk?.paused);
  useEffect(() => {
    if (!isWaiting || isBusy || isPaused) return;
    setWaiting(false);
    const words = text;
    if (!words.trim()) return;
    setText("");
    // Words that were not answered come back, unless other ones are typed by now.
    void send({ text: words }, words).then((isDone) => {
      if (!isDone) setText((now) => now || words);
    });
  }, [isWaiting, isBusy, isPaused]);
  if (!talk) return null;
  if (talk.paused) return <Pause key={talk.turns.length} paused={talk.paused} />;
  const say = (event: Event) => {
    event.preventDefault();
    setWaiting(true);
  };
  const type = (words: string) => {
    setText(words);
    setWaiting(false);
  };
  return (
    <>
      {talk.choices.length > 0 && (
        <div class="buttons" role="group" aria-label="Choices">
          {talk.choices.map((one) => (
            <Press
              key={one.label}
              disabled={isBusy}
              run={() => send({ choice: one.value }, one.label)}
            >
              {one.label}
            </Press>
          ))}
        </div>
      )}
      <form class="line" onSubmit={say}>
        <label class="grow">
          Your message
          <textarea
            rows={1}
            value={text}
            onInput={(event) => type(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.shiftKey && !event.isComposing) say(event);
            }}
          />
        </label>
        <button class="main">Send</button>
      </form>
      {isWaiting && (
        <p role="status" class="quiet">
          Your message is sent after this answer.
        </p>
      )}
    </>
  );
}

/** What the conversation waits for, as a form of its schema. */
function Pause({ paused }: { paused: PausedRow }) {
  const properties = isObject(paused.answer_schema?.["properties"])
    ? paused.answer_schema["properties"]
    : null;
  const [values, setValues] = useState<Record<string, unknown>>({});
  const [whole, setWhole] = useState("");
  const [fault, setFault] = useState("");
  if (paused.kind === "approval") {
    return (
      <div role="group" aria-label="Approval">
        <p>
          {paused.what} wants to act: <code>{show(paused.call)}</code>
        </p>
        <div class="buttons">
          <Press class="main" run={() => answer(true)} label="Allow" />
          <Press run={() => answer(false)}>Refuse</Press>
        </div>
      </div>
    );
  }
  const submit = (event: Event) => {
    event.preventDefault();
    if (properties) {
      void answer(values);
      return;
    }
    try {
      void answer(JSON.parse(whole));
      setFault("");
    } catch {
      setFault('Write JSON, such as "yes" or {"approved": true}.');
    }
  };
  return (
    <form onSubmit={submit} aria-label="Answer" class="pause">
      <p>
        Waits for <b>{paused.what || paused.state}</b>
      </p>
      {properties ? (
        Object.entries(properties).map(([key, schema]) => (
          <Answer
            key={key}
            name={key}
            schema={isObject(schema) ? schema : {}}
            onInput={(value) => setValues({ ...values, [key]: value })}
          />
        ))
      ) : (
        <label>
          Answer as JSON
          <Code value={whole} put={setWhole} />
        </label>
      )}
      <Alert words={fault} />
      <button class="main">Answer</button>
    </form>
  );
}

interface AnswerProps {
  readonly name: string;
  readonly schema: Record<string, unknown>;
  readonly onInput: (value: unknown) => void;
}

function Answer({ name, schema, onInput }: AnswerProps) {
  const { type, title, description } = schema;
  const isNumber = type === "number" || type === "integer";
  const values = type === "boolean" ? [true, false] : schema["enum"];
  const words = (value: unknown): string =>
    typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
  return (
    <label>
      {String(title ?? description ?? name)}
      {Array.isArray(values) ? (
        <Select
          options={[["", "–"], ...values.map(words)]}
          choose={(_, field) => onInput(values[field.selectedIndex - 1])}
        />
      ) : (
        <input
          list={undefined}
          type={isNumber ? "number" : "text"}
          onInput={({ currentTarget: { value } }) => onInput(isNumber ? Number(value) : value)}
        />
      )}
    </label>
  );
}
