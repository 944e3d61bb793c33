// The playground: talk to the machine, see why it said what it said, step back, fork, keep as a test.
import { useEffect, useRef, useState } from "preact/hooks";
import type { TurnInspection, TurnRow } from "../api/types";
import { nodes } from "../state/machine";
import { useStudio } from "../state/store";
import Conversations from "../views/Conversations";
import { askText } from "../views/dialogs";
import { Entry } from "./Entry";
import { Inspection } from "./Inspection";
import { begin, changeTalk, fork, inspect, replay, saveTest, useTalk } from "./talk";
import { show } from "./Why";
import { Alert, Press } from "../views/Buttons";
import { Code } from "../views/Code";
import { Select } from "../views/Select";

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
            <Press
              disabled={isBusy || count === 0}
              run={replay}
              label="Play on the edited definition"
            />
            <Press disabled={isBusy || count === 0} run={keepAsTest} label="Save as test" />
          </div>
          {saved && (
            <p role="status" class={saved.passed === false ? "error" : "good"}>
              Saved {saved.name} in {saved.path}. {saved.passed === true && "It passes. "}
              {saved.passed === false && "It fails now. "}
              {saved.message}
            </p>
          )}
          <small>“Play on…” replays the recorded replies. No model is asked.</small>
          {played && <Replayed />}
        </>
      )}
      <Alert words={problem} />
    </section>
  );
}

async function keepAsTest(): Promise<void> {
  const name = await askText("Save as a test", "Name of the test", "conversation", "Save");
  if (name !== null) await saveTest(name);
}

function Replayed() {
  const { replay: played, replayedBy, model, isBusy } = useTalk();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.scrollIntoView({ block: "nearest" }), [played]);
  if (!played) return null;
  const { first, reason, reworded } = played;
  const how = replayedBy === null ? "with its recorded replies" : `with ${replayedBy}`;
  return (
    <div role="status" ref={box}>
      <p class={played.same ? "good" : "error"}>
        {played.same && `Replayed ${how}: the conversation is the same on the edited definition.`}
        {reason}
        {first && (
          <>
            Replayed {how}. First difference in turn {first.turn}: {first.what}.{" "}
            <del>{show(first.was)}</del> <ins>{show(first.now)}</ins>
          </>
        )}
      </p>
      {reworded.length > 0 && (
        <>
          <p>These words are new. Recorded replies do not show what they change.</p>
          <ul aria-label="Reworded">
            {reworded.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </>
      )}
      {reason === null && model !== "scripted" && (
        <Press disabled={isBusy} run={() => replay(model)}>
          Ask {model} anew
        </Press>
      )}
    </div>
  );
}

function Beginning() {
  const { model, replies, from, context, isBusy, talk } = useTalk();
  const [showsStored, setShowsStored] = useState(false);
  const settings = useStudio((state) => state.settings);
  return (
    <div class="beginning">
      <div class="line">
        <label>
          Model
          <Select
            value={model}
            options={settings?.models ?? ["offline", "scripted"]}
            choose={(chosen) => changeTalk({ model: chosen })}
          />
        </label>
        <Press class="main" disabled={isBusy} run={begin}>
          {talk ? "Start again" : "Start"}
        </Press>
        {settings?.has_store && (
          <Press
            aria-expanded={showsStored}
            run={() => setShowsStored(!showsStored)}
            label="Stored…"
          />
        )}
      </div>
      {model === "scripted" && (
        <label>
          Replies, one a line or as a JSON list
          <Code rows={4} value={replies} put={(text) => changeTalk({ replies: text })} />
        </label>
      )}
      <details class="more">
        <summary>Begin elsewhere {from && <small>{from}</small>}</summary>
        <label>
          State
          <Select
            value={from}
            options={[["", "the first one"], ...nodes().map((one) => one.id)]}
            choose={(chosen) => changeTalk({ from: chosen })}
          />
        </label>
        <label>
          Context as JSON
          <Code
            rows={3}
            placeholder='{"age": 20}'
            value={context}
            put={(text) => changeTalk({ context: text })}
          />
        </label>
      </details>
      {showsStored && <Conversations />}
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
  const further = (label: string, what: string, run: () => unknown) => (
    <Press
      class="small"
      disabled={isStuck}
      aria-label={`${what} turn ${turn.number}`}
      run={run}
      label={label}
    />
  );
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
          <Press
            class="small"
            aria-expanded={inspected !== null}
            aria-label={`Why turn ${turn.number}`}
            run={() => inspect(turn.number)}
            label="Why"
          />
          {further("Step back", "Step back to", () => fork(turn.number))}
          {turn.by === "message" && further("Edit", "Edit the message of", edit)}
        </div>
        {inspected && <Inspection found={inspected} />}
      </li>
    </>
  );
}
