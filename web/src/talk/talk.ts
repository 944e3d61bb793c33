// The conversation that is open beside the document: the playground's, or a stored one.
import { api } from "../api/client";
import type * as T from "../api/types";
import { isObject } from "../forms/pointers";
import { bringIntoView, leaveUnsaved } from "../state/actions";
import { openFile, openVersion, refreshFiles } from "../state/files";
import { settledText } from "../state/gestures";
import { observed } from "../state/observed";
import { attempt, getState, light, openPanel, say, tell } from "../state/store";
import { isUnsaved } from "../state/unsaved";

const FIRST = {
  talk: null as T.TalkView | null,
  isBusy: false,
  /** The user's words and the answer as it arrives. */
  asked: "",
  streamed: "",
  problem: "",
  inspected: null as T.TurnInspection | null,
  replay: null as T.ReplayAnswer | null,
  /** The model that was asked for it anew; null: none. */
  replayedBy: null as string | null,
  saved: null as T.SavedTest | null,
  model: "offline",
  replies: "",
  /** Where the next conversation begins: a state, "" for the first one, and its context as JSON. */
  from: "",
  context: "",
};
export type TalkState = Readonly<typeof FIRST>;

const store = observed<TalkState>(FIRST);

export const useTalk = (): TalkState => store.use((state) => state);
export const changeTalk = (part: Partial<TalkState>): void =>
  store.put({ ...store.get(), ...part });

function take(talk: T.TalkView): void {
  changeTalk({ talk, asked: "", streamed: "", problem: talk.problem ?? "" });
  const last = talk.turns.at(-1);
  light({ state: talk.state, edges: last?.edges ?? [] });
  bringIntoView(talk.state);
}

/** Do one thing at a time. Return true if it was done; else the problem is told. */
async function busy(work: () => Promise<void>): Promise<boolean> {
  if (store.get().isBusy) return false;
  changeTalk({ isBusy: true, problem: "" });
  try {
    await work();
    return true;
  } catch (error) {
    const problem = (error as Error).message;
    if (getState().path === null) tell(error);
    else changeTalk({ problem });
    return false;
  } finally {
    changeTalk({ isBusy: false, asked: "", streamed: "" });
  }
}

/** Read the replies of `scripted`: JSON values or lines of text. */
export function repliesOf(text: string): unknown[] {
  const read = (part: string): unknown => {
    try {
      return JSON.parse(part);
    } catch {
      return part;
    }
  };
  const whole = read(text);
  if (typeof whole !== "string") return Array.isArray(whole) ? whole : [whole];
  return text.split("\n").flatMap((line) => (line.trim() === "" ? [] : [read(line)]));
}

export const begin = () =>
  busy(async () => {
    const { model, from } = store.get();
    const replies = model === "scripted" ? repliesOf(store.get().replies) : null;
    const context = contextOf(store.get().context);
    changeTalk({ inspected: null, replay: null, saved: null, talk: null });
    const began = { model, replies, context, state: from === "" ? null : from };
    take(await api.talk({ ...(await settledText()), ...began }));
  });

/** Read a context that is typed as JSON. Throws an Error for anything but an object. */
export function contextOf(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  const found: unknown = JSON.parse(text);
  if (!isObject(found)) throw new Error('Write the context as an object, such as {"age": 20}.');
  return found;
}

async function follow(events: AsyncGenerator<T.Streamed>): Promise<void> {
  for await (const event of events) {
    if (event.delta) changeTalk({ streamed: store.get().streamed + event.delta });
    if (event.replaced !== null && event.replaced !== undefined) {
      changeTalk({ streamed: event.replaced });
    }
    if (event.state) {
      light({ state: event.state });
      bringIntoView(event.state);
    }
    if (event.problem) throw new Error(String(event.problem["detail"] ?? "The turn failed."));
    if (event.talk) take(event.talk);
  }
}

/** Do one thing with the open conversation. */
const onTalk = (work: (talk: T.TalkView) => Promise<void>) =>
  busy(async () => {
    const { talk } = store.get();
    if (talk) await work(talk);
  });

export const send = (words: T.MessageBody, shown: string) =>
  onTalk(({ id }) => {
    changeTalk({ asked: shown, streamed: "", replay: null });
    return follow(api.say(id, words));
  });

export const answer = (value: unknown) =>
  onTalk(({ id }) => {
    changeTalk({ asked: JSON.stringify(value), streamed: "" });
    return follow(api.answer(id, { value }));
  });

export const inspect = (turn: number) =>
  onTalk(async ({ id, turns }) => {
    const isOpen = store.get().inspected?.turn.number === turn;
    changeTalk({ inspected: isOpen ? null : await api.turn(id, turn) });
    const shown = turns.find((one) => one.number === turn);
    if (!isOpen && shown) light({ state: shown.state, edges: shown.edges });
  });

/** Go on from a turn in a new conversation, on the definition as it is edited now. */
export const fork = (turn: number, message: string | null = null) =>
  onTalk(async (talk) => {
    const { path, text } = await settledText();
    const edited = path === talk.path ? text : null;
    const made = await api.fork(talk.id, { turn, message, text: edited });
    changeTalk({ inspected: null, replay: null, saved: null });
    take(made);
    say(message === null ? `Stepped back to turn ${turn}` : "Went on with the edited message");
  });

/** Play the conversation on the edited definition: with its recorded replies, or with a model that is asked anew. */
export const replay = (model: string | null = null) =>
  onTalk(async ({ id }) => {
    // Beside an old version, the edited definition is the file as it is now.
    const file = getState().old?.file;
    const edited = file ? await api.open(file) : await settledText();
    const found = await api.replay(id, { path: edited.path, text: edited.text, model });
    changeTalk({ replay: found, replayedBy: model });
  });

export const saveTest = (name: string) =>
  onTalk(async ({ id }) => {
    changeTalk({ saved: await api.saveTest(id, { name }) });
    await refreshFiles();
  });

/** Open a stored conversation beside the definition that it ran on. */
export const openStored = (id: string) =>
  busy(async () => {
    if (isUnsaved() && !(await leaveUnsaved())) return;
    const talk = await api.openStored(id);
    await refreshFiles();
    await showDefinition(talk, id);
    changeTalk({ inspected: null, replay: null, saved: null });
    take(talk);
    openPanel("talk");
  });

/** Open the file of a stored conversation if it is still the same, else the version that the store keeps. */
async function showDefinition(talk: T.TalkView, id: string): Promise<void> {
  const isThere = getState().listing?.files.some((one) => one.path === talk.path) ?? false;
  if (isThere && !talk.is_stale && talk.not_forked === null) {
    if (getState().path !== talk.path || getState().old) await openFile(talk.path);
    return;
  }
  const file = isThere ? talk.path : null;
  await openVersion(file ?? fileNameOf(talk.definition), talk.version ?? "", {
    of: `conversation ${id}`,
    file,
  });
}

const fileNameOf = (name: string): string => `${name.replace(/[^\w-]+/g, "_")}.json`;

/** Show figures of the store on the canvas. */
export const showFigures = () =>
  attempt(async () => {
    const found = await api.overlays(await settledText());
    const figures = Object.fromEntries(found.flows.map((one) => [one.pointer, wordsOf(one)]));
    light({ figures });
    say(`Figures of ${found.conversations} conversations`);
  });

function wordsOf(one: T.FlowFigures): string {
  const parts = [`${one.visits}×`];
  if (one.drop_outs > 0) parts.push(`${one.drop_outs} left`);
  if (one.misses > 0) parts.push(`${one.misses} missed`);
  if (one.cost) parts.push(`$${one.cost.toPrecision(2)}`);
  return parts.join(" · ");
}
