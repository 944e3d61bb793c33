// Calls of the studio's server. The token comes with the address and travels as a header, never as a cookie.
import type * as T from "./types";

const TOKEN_PLACE = "llm-fsm-studio-token";

export class ServerProblem extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly body: Record<string, unknown>,
  ) {
    super(message);
  }
}

function takeToken(): string {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(TOKEN_PLACE, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(TOKEN_PLACE) ?? "";
}

const token = takeToken();

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    const help =
      "The server does not answer. Start `llm-fsm studio` again; your text is kept here.";
    throw new ServerProblem(help, 0, {});
  }
  if (!answer.ok) {
    const found = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
    const reason = answer.status === 401 ? "Open the address that `llm-fsm studio` printed." : "";
    const words = String(found["detail"] ?? `The server answered ${answer.status}.`);
    throw new ServerProblem(`${words} ${reason}`.trim(), answer.status, found);
  }
  return answer;
}

async function ask<R>(method: string, path: string, body?: unknown): Promise<R> {
  return (await (await send(method, path, body)).json()) as R;
}

const get = <R>(path: string) => ask<R>("GET", path);
const post = <R>(path: string, body: unknown) => ask<R>("POST", path, body);
const put = <R>(path: string, body: unknown) => ask<R>("PUT", path, body);
const id = encodeURIComponent;

async function* events(answer: Response): AsyncGenerator<T.Streamed> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice(5)).join("\n");
      if (data) yield JSON.parse(data) as T.Streamed;
    }
  }
}

async function* stream(path: string, body: unknown): AsyncGenerator<T.Streamed> {
  yield* events(await send("POST", path, body));
}

export const api = {
  settings: () => get<T.StudioSettings>("api/settings"),
  schema: () => get<Record<string, unknown>>("api/schema"),
  files: () => get<T.Listing>("api/files"),
  open: (path: string) => get<T.Opened>(`api/file?path=${id(path)}&findings=false`),
  remove: (path: string, base: string) =>
    send("DELETE", `api/file?path=${id(path)}&base=${id(base)}`),
  save: (body: T.SaveBody) => put<T.SavedFile>("api/file", body),
  saveLayout: (body: T.LayoutBody) => put<T.Layout>("api/layout", body),
  check: (body: T.EditedBody) => post<T.CheckedText>("api/check", body),
  texts: (body: T.EditedBody) => post<T.Texts>("api/texts", body),
  gestures: (body: T.GestureBody) => post<T.Patched>("api/patch", body),
  condition: (body: T.ConditionBody) => post<T.ConditionAnswer>("api/condition", body),
  templates: () => get<T.Template[]>("api/templates"),
  create: (body: T.NewBody) => post<T.Created>("api/new", body),
  diff: (body: T.DiffBody) => post<T.DiffAnswer>("api/diff", body),
  commits: (path: string) => get<T.GitCommit[]>(`api/commits?path=${id(path)}`),
  export: (body: T.ExportBody) => post<T.Exported>("api/export", body),
  talk: (body: T.TalkBody) => post<T.TalkView>("api/talks", body),
  say: (talk: string, body: T.MessageBody) => stream(`api/talks/${id(talk)}/messages`, body),
  answer: (talk: string, body: T.AnswerBody) => stream(`api/talks/${id(talk)}/answers`, body),
  fork: (talk: string, body: T.ForkBody) => post<T.TalkView>(`api/talks/${id(talk)}/fork`, body),
  turn: (talk: string, number: number) =>
    get<T.TurnInspection>(`api/talks/${id(talk)}/turns/${number}`),
  replay: (talk: string, body: T.ReplayBody) =>
    post<T.ReplayAnswer>(`api/talks/${id(talk)}/replay`, body),
  saveTest: (talk: string, body: T.SaveTestBody) =>
    post<T.SavedTest>(`api/talks/${id(talk)}/test`, body),
  runTests: (body: T.RunTestsBody) => post<T.RanTests>("api/tests", body),
  stored: (words: string, after: string | null) =>
    get<T.StoredPage>(
      `api/stored?words=${id(words)}${after === null ? "" : `&after=${id(after)}`}`,
    ),
  openStored: (conversation: string) => get<T.TalkView>(`api/conversation?id=${id(conversation)}`),
  overlays: (body: T.OverlayBody) => post<T.Overlays>("api/overlays", body),
};
