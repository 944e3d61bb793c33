// The playground: talk to the machine, see why it said what it said, step back, fork, keep as a test.
import { useEffect, useRef, useState } from "preact/hooks";
import type { PausedRow, TurnInspection, TurnRow } from "../api/types";
import { isObject } from "../forms/pointers";
import { useStudio } from "../state/store";
import { askText } from "../views/dialogs";
import {
  answer,
  begin,
  changeTalk,
  fork,
  inspect,
  listStored,
  openStored,
  replay,
  saveTest,
  send,
  useTalk,
} from "./talk";
import { Why, show } from "./Why";

export default function Talk() {
  const { talk, isBusy, asked, streamed, problem, inspected, replay: played, saved } = useTalk();
  const end = useRef<HTMLDivElement>(null);
  const count = talk?.turns.length ?? 0;
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [count, streamed]);
  return (
    <section class="talk" aria-label="Playground">
      <Beginning />
      {talk && (
        <>
          <p class="quiet">
            {talk.read_only && "Stored conversation, read only until you fork it. "}
            {talk.is_stale && "It ran on another version of the definition. "}
            State <b>{talk.state}</b>
            {talk.ended && ", ended"}
          </p>
          {talk.not_forked && (
            <p class="banner" role="note">
              You can read it, but not go on with it: {talk.not_forked}.
            </p>
          )}
          <ol class="turns" aria-label="Conversation" aria-live="polite">
            {talk.turns.map((turn) => (
              <Turn
                key={turn.number}
                turn={turn}
                inspected={inspected?.turn.number === turn.number ? inspected : null}
              />
            ))}
            {asked && <li class="user">{asked}</li>}
            {streamed && <li class="bot">{streamed}</li>}
          </ol>
          <div ref={end} />
          {!talk.read_only && !talk.ended && <Entry />}
          <div class="buttons">
            <button type="button" disabled={isBusy || count === 0} onClick={() => void replay()}>
              Play on the edited definition
            </button>
            <button
              type="button"
              disabled={isBusy || count === 0}
              onClick={() =>
                void askText("Save as a test", "Name of the test", "conversation", "Save").then(
                  (name) => (name === null ? undefined : saveTest(name)),
                )
              }
            >
              Save as test
            </button>
          </div>
          {saved && (
            <p role="status" class={saved.passed === false ? "error" : "good"}>
              Saved {saved.name} in {saved.path}. {saved.passed === true && "It passes. "}
              {saved.passed === false && "It fails now. "}
              {saved.message}
            </p>
          )}
          {played && (
            <div role="status">
              {played.same ? (
                <p class="good">The conversation is the same on the edited definition.</p>
              ) : (
                <p class="error">
                  {played.reason ?? ""}
                  {played.first && (
                    <>
                      First difference in turn {played.first.turn}: {played.first.what}.{" "}
                      <del>{show(played.first.before)}</del> <ins>{show(played.first.after)}</ins>
                    </>
                  )}
                </p>
              )}
            </div>
          )}
        </>
      )}
      {problem && (
        <p role="alert" class="error">
          {problem}
        </p>
      )}
    </section>
  );
}

function Beginning() {
  const { model, replies, isBusy, talk, stored } = useTalk();
  const settings = useStudio((state) => state.settings);
  return (
    <div class="beginning">
      <div class="line">
        <label>
          Model
          <select
            value={model}
            onChange={(event) => changeTalk({ model: event.currentTarget.value })}
          >
            {(settings?.models ?? ["offline", "scripted"]).map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <button type="button" class="main" disabled={isBusy} onClick={() => void begin()}>
          {talk ? "Start again" : "Start"}
        </button>
        {settings?.has_store && (
          <button type="button" disabled={isBusy} onClick={() => void listStored()}>
            Stored…
          </button>
        )}
      </div>
      {model === "scripted" && (
        <label>
          Replies, one a line or as a JSON list
          <textarea
            class="code"
            rows={4}
            spellcheck={false}
            value={replies}
            onInput={(event) => changeTalk({ replies: event.currentTarget.value })}
          />
        </label>
      )}
      {stored && (
        <ul class="ways" aria-label="Stored conversations">
          {stored.map((one) => (
            <li key={one.id}>
              <button type="button" onClick={() => void openStored(one.id)}>
                {one.id} <small>{`${one.definition}, ${one.state}, ${one.turns} turns`}</small>
              </button>
            </li>
          ))}
          {stored.length === 0 && <li>There are none.</li>}
        </ul>
      )}
    </div>
  );
}

function Turn({ turn, inspected }: { turn: TurnRow; inspected: TurnInspection | null }) {
  const { isBusy, talk } = useTalk();
  const isStuck = isBusy || Boolean(talk?.not_forked);
  const edit = async () => {
    const words = await askText("Edit the message", "Message", turn.user ?? "", "Go on from here");
    if (words !== null) await fork(turn.number - 1, words);
  };
  return (
    <>
      {turn.user !== null && <li class="user">{turn.user}</li>}
      <li class="bot">
        <p>{turn.text}</p>
        <div class="turn-tools">
          <small>
            {turn.number}. {turn.previous_state && turn.moved ? `${turn.previous_state} → ` : ""}
            {turn.state}
            {turn.usage.calls > 0 &&
              `, ${turn.usage.input_tokens + turn.usage.output_tokens} tokens`}
          </small>
          <button
            type="button"
            class="small"
            aria-expanded={inspected !== null}
            aria-label={`Why turn ${turn.number}`}
            onClick={() => void inspect(turn.number)}
          >
            Why
          </button>
          <button
            type="button"
            class="small"
            disabled={isStuck}
            aria-label={`Step back to turn ${turn.number}`}
            onClick={() => void fork(turn.number)}
          >
            Step back
          </button>
          {turn.by === "message" && (
            <button
              type="button"
              class="small"
              disabled={isStuck}
              aria-label={`Edit the message of turn ${turn.number}`}
              onClick={() => void edit()}
            >
              Edit
            </button>
          )}
        </div>
        {inspected && <Inspection found={inspected} />}
      </li>
    </>
  );
}

function Inspection({ found }: { found: TurnInspection }) {
  const { usage } = found.turn;
  return (
    <div class="inspection" role="region" aria-label={`Turn ${found.turn.number}`}>
      <details open>
        <summary>Why</summary>
        <Why why={found.why} />
      </details>
      {found.changed.length > 0 && (
        <details open>
          <summary>Context: what changed</summary>
          <table>
            <thead>
              <tr>
                <th>Key</th>
                <th>Before</th>
                <th>After</th>
                <th>From</th>
              </tr>
            </thead>
            <tbody>
              {found.changed.map((one) => (
                <tr key={one.key}>
                  <td>{one.key}</td>
                  <td>{show(one.before ?? "–")}</td>
                  <td>{show(one.after ?? "–")}</td>
                  <td>{one.quote ? `“${one.quote}”` : one.source}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
      {found.calls.map((call, index) => (
        <details key={index}>
          <summary>Prompt and reply {found.calls.length > 1 ? index + 1 : ""}</summary>
          {(call.messages ?? []).map((message, n) => (
            <div key={n}>
              <b>{String(message["role"])}</b>
              <pre tabIndex={0}>{show(message["content"])}</pre>
            </div>
          ))}
          <b>reply</b>
          <pre role="region" aria-label="Reply" tabIndex={0}>
            {call.error ?? call.reply}
          </pre>
        </details>
      ))}
      {found.tools.map((tool, index) => (
        <details key={index}>
          <summary>Tool {tool.name}</summary>
          <pre tabIndex={0}>{`${show(tool.arguments)}\n→ ${tool.error ?? show(tool.result)}`}</pre>
        </details>
      ))}
      <details>
        <summary>Context before and after</summary>
        <pre tabIndex={0}>{show(found.before)}</pre>
        <pre tabIndex={0}>{show(found.after)}</pre>
      </details>
      <small>
        {usage.calls} calls, {usage.input_tokens} + {usage.output_tokens} tokens,{" "}
        {usage.seconds.toFixed(2)} s{usage.cost !== null && `, $${usage.cost.toPrecision(3)}`}
      </small>
    </div>
  );
}

function Entry() {
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
            <button
              key={one.label}
              type="button"
              disabled={isBusy}
              onClick={() => void send({ choice: one.value }, one.label)}
            >
              {one.label}
            </button>
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
          <button type="button" class="main" onClick={() => void answer(true)}>
            Allow
          </button>
          <button type="button" onClick={() => void answer(false)}>
            Refuse
          </button>
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
          <textarea
            class="code"
            value={whole}
            onInput={(event) => setWhole(event.currentTarget.value)}
          />
        </label>
      )}
      {fault && (
        <p role="alert" class="error">
          {fault}
        </p>
      )}
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
  const kind = schema["type"];
  const label = String(schema["title"] ?? schema["description"] ?? name);
  if (kind === "boolean") {
    return (
      <label class="flag">
        <input type="checkbox" onChange={(event) => onInput(event.currentTarget.checked)} /> {label}
      </label>
    );
  }
  if (Array.isArray(schema["enum"])) {
    const all = schema["enum"] as unknown[];
    return (
      <label>
        {label}
        <select onChange={(event) => onInput(all[event.currentTarget.selectedIndex - 1])}>
          <option value="">–</option>
          {all.map((one) => (
            <option key={String(one)}>{String(one)}</option>
          ))}
        </select>
      </label>
    );
  }
  const isNumber = kind === "number" || kind === "integer";
  return (
    <label>
      {label}
      <input
        list={undefined}
        type={isNumber ? "number" : "text"}
        onInput={(event) => {
          const text = event.currentTarget.value;
          onInput(isNumber ? Number(text) : text);
        }}
      />
    </label>
  );
}
