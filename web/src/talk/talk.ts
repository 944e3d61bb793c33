// The conversation that is open beside the document: the playground's, or a stored one.
import { useSyncExternalStore } from "preact/compat";
import { api } from "../api/client";
import type * as T from "../api/types";
import { refreshFiles } from "../state/files";
import { settledText } from "../state/gestures";
import { light, openPanel, say, tell } from "../state/store";

export interface TalkState {
  readonly talk: T.TalkView | null;
  readonly isBusy: boolean;
  /** The user's words and the answer as it arrives. */
  readonly asked: string;
  readonly streamed: string;
  readonly problem: string;
  readonly inspected: T.TurnInspection | null;
  readonly replay: T.ReplayAnswer | null;
  readonly saved: T.SavedTest | null;
  readonly stored: readonly T.StoredRow[] | null;
  readonly model: string;
  readonly replies: string;
}

let state: TalkState = {
  talk: null,
  isBusy: false,
  asked: "",
  streamed: "",
  problem: "",
  inspected: null,
  replay: null,
  saved: null,
  stored: null,
  model: "offline",
  replies: "",
};
const listeners = new Set<() => void>();

export function changeTalk(part: Partial<TalkState>): void {
  state = { ...state, ...part };
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export const useTalk = (): TalkState => useSyncExternalStore(subscribe, () => state);

function take(talk: T.TalkView): void {
  changeTalk({ talk, asked: "", streamed: "", problem: talk.problem ?? "" });
  const last = talk.turns.at(-1);
  light({ state: talk.state, edges: last?.edges ?? [] });
}

/** Do one thing at a time. Return true if it was done; else the problem is told. */
async function busy(work: () => Promise<void>): Promise<boolean> {
  if (state.isBusy) return false;
  changeTalk({ isBusy: true, problem: "" });
  try {
    await work();
    return true;
  } catch (error) {
    changeTalk({ problem: (error as Error).message });
    return false;
  } finally {
    changeTalk({ isBusy: false, asked: "", streamed: "" });
  }
}

/** Read the replies of `scripted`: JSON values or lines of text. */
export function repliesOf(text: string): unknown[] {
  try {
    const found: unknown = JSON.parse(text);
    return Array.isArray(found) ? found : [found];
  } catch {
    return text
      .split("\n")
      .filter((line) => line.trim() !== "")
      .map((line) => {
        try {
          return JSON.parse(line) as unknown;
        } catch {
          return line;
        }
      });
  }
}

export const begin = () =>
  busy(async () => {
    const { model } = state;
    const replies = model === "scripted" ? repliesOf(state.replies) : null;
    changeTalk({ inspected: null, replay: null, saved: null, talk: null });
    take(await api.talk({ ...(await settledText()), model, replies }));
  });

async function follow(events: AsyncGenerator<T.Streamed>): Promise<void> {
  for await (const event of events) {
    if (event.delta) changeTalk({ streamed: state.streamed + event.delta });
    if (event.replaced !== null && event.replaced !== undefined) {
      changeTalk({ streamed: event.replaced });
    }
    if (event.state) light({ state: event.state });
    if (event.problem) throw new Error(String(event.problem["detail"] ?? "The turn failed."));
    if (event.talk) take(event.talk);
  }
}

export const send = (words: T.MessageBody, shown: string) =>
  busy(async () => {
    if (!state.talk) return;
    changeTalk({ asked: shown, streamed: "", replay: null });
    await follow(api.say(state.talk.id, words));
  });

export const answer = (value: unknown) =>
  busy(async () => {
    if (!state.talk) return;
    changeTalk({ asked: JSON.stringify(value), streamed: "" });
    await follow(api.answer(state.talk.id, { value }));
  });

export const inspect = (turn: number) =>
  busy(async () => {
    if (!state.talk) return;
    const isOpen = state.inspected?.turn.number === turn;
    changeTalk({ inspected: isOpen ? null : await api.turn(state.talk.id, turn) });
    const shown = state.talk.turns.find((one) => one.number === turn);
    if (!isOpen && shown) light({ state: shown.state, edges: shown.edges });
  });

/** Go on from a turn in a new conversation, on the definition as it is edited now. */
export const fork = (turn: number, message: string | null = null) =>
  busy(async () => {
    if (!state.talk) return;
    const { path, text } = await settledText();
    const edited = path === state.talk.path ? text : null;
    const made = await api.fork(state.talk.id, { turn, message, text: edited });
    changeTalk({ inspected: null, replay: null, saved: null });
    take(made);
    say(message === null ? `Stepped back to turn ${turn}` : "Went on with the edited message");
  });

export const replay = () =>
  busy(async () => {
    if (!state.talk) return;
    changeTalk({ replay: await api.replay(state.talk.id, await settledText()) });
  });

export const saveTest = (name: string) =>
  busy(async () => {
    if (!state.talk) return;
    changeTalk({ saved: await api.saveTest(state.talk.id, { name }) });
    await refreshFiles();
  });

export const listStored = () =>
  busy(async () => changeTalk({ stored: (await api.stored()).conversations }));

export const openStored = (id: string) =>
  busy(async () => {
    changeTalk({ inspected: null, replay: null, saved: null });
    take(await api.openStored(id));
    openPanel("talk");
  });

/** Show figures of the store on the canvas. */
export async function showFigures(): Promise<void> {
  try {
    const found = await api.overlays(await settledText());
    const figures = Object.fromEntries(found.flows.map((one) => [one.pointer, wordsOf(one)]));
    light({ figures });
    say(`Figures of ${found.conversations} conversations`);
  } catch (error) {
    tell(error);
  }
}

function wordsOf(one: T.FlowFigures): string {
  const parts = [`${one.visits}×`];
  if (one.drop_outs > 0) parts.push(`${one.drop_outs} left`);
  if (one.misses > 0) parts.push(`${one.misses} missed`);
  if (one.cost) parts.push(`$${one.cost.toPrecision(2)}`);
  return parts.join(" · ");
}
