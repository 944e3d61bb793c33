// The operators' page: what waits for a person, its conversation, and a form for the answer.
import { caller, events, newKey } from "./client.js";

const { call, askToken, pages } = caller("llm-fsm-operator-token");
const at = (id) => document.getElementById(id);
const [waiting, messages, answer, say, text, name] = ["waiting", "messages", "answer", "say", "text", "name"].map(at);
const REFRESH = 3000; // milliseconds between two looks at the list
let current = null; // the pause that is open
let following = null; // ends the stream of its conversation
let answering = false; // our own answer is under way
const seen = new Map(); // conversation and pause to the time of the last turn that was looked at

const path = (id, rest = "") => `conversations/${encodeURIComponent(id)}${rest}`;
const json = async (...given) => (await call(...given)).json();
const keyOf = (pause) => `${pause.conversation_id} ${pause.id}`;

function made(tag, words = "", kind = "") {
  const one = document.createElement(tag);
  one.textContent = words;
  if (kind) one.className = kind;
  return one;
}

function tell(id, words) {
  at(id).textContent = words;
  at(id).hidden = !words;
}

const KINDS = {
  approval: "Approve or refuse", wait: "Waits for an answer", break: "Asks a question",
  unknown_outcome: "Unknown what became of a call",
};

function titleOf(pause) {
  if (pause.messages === "record") return pause.by ? `${pause.by} has taken over` : "Wants a person";
  const called = pause.call ? `: ${pause.call.name}` : `: ${pause.what}`;
  return KINDS[pause.kind] + called;
}

function ago(seconds) {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  if (passed < 60) return "just now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  return passed < 86400 ? `${Math.floor(passed / 3600)} h ago` : new Date(seconds * 1000).toLocaleDateString();
}

// -- the list

async function refresh() {
  try {
    const found = await json("pauses?limit=200");
    tell("trouble", "");
    list(found.pauses, Boolean(found.next));
  } catch (error) {
    list([], false);
    at("empty").hidden = true;
    tell("trouble", error.status === 403 ? `${error.message}. Use the button “Token”.` : error.message);
  }
}

function list(pauses, more) {
  at("count").textContent = pauses.length ? `${pauses.length}${more ? "+" : ""}` : "";
  document.title = pauses.length ? `(${pauses.length}) llm-fsm: operators` : "llm-fsm: operators";
  at("empty").hidden = pauses.length > 0;
  const focused = document.activeElement?.dataset?.key;
  waiting.replaceChildren(...pauses.map(line));
  if (focused) waiting.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function line(pause) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.key = keyOf(pause);
  const isOpen = current !== null && keyOf(current) === keyOf(pause);
  if (isOpen) {
    button.setAttribute("aria-current", "true");
    seen.set(keyOf(pause), pause.updated);
  } else if (seen.get(keyOf(pause)) !== pause.updated) button.className = "new";
  const user = pause.metadata.user ? ` · ${pause.metadata.user}` : "";
  button.append(made("strong", titleOf(pause)), made("small", `${pause.definition}${user} · ${ago(pause.updated)}`));
  button.addEventListener("click", () => open(pause));
  const item = document.createElement("li");
  item.append(button);
  return item;
}

// -- one conversation

async function open(pause) {
  current = pause;
  seen.set(keyOf(pause), pause.updated);
  document.body.classList.add("open");
  at("none").hidden = true;
  at("case").hidden = false;
  tell("problem", "");
  tell("done", "");
  at("act").hidden = false;
  at("what").textContent = titleOf(pause);
  const until = pause.expires ? ` · gives up ${new Date(pause.expires * 1000).toLocaleString()}` : "";
  at("about").textContent = `${pause.definition}, state ${pause.state} · ${pause.conversation_id}${until}`;
  messages.replaceChildren();
  at("agreed").hidden = true;
  showCall(pause.call);
  form(pause);
  at("what").focus();
  for (const one of waiting.querySelectorAll("button")) {
    one.toggleAttribute("aria-current", false);
    if (one.dataset.key === keyOf(pause)) one.setAttribute("aria-current", "true");
  }
  try {
    await read(pause);
    follow(pause);
  } catch (error) {
    if (current === pause) tell("problem", error.message);
  }
}

async function read(pause) {
  const [said, turns] = await Promise.all([
    pages(path(pause.conversation_id, "/history"), "messages"), pages(path(pause.conversation_id, "/turns"), "turns"),
  ]);
  if (current !== pause) return;
  messages.replaceChildren(...said.map((one) => {
    const who = one.role === "user" ? "user" : one.by ? "person" : "bot";
    const shown = made("li", "", who);
    const name = { user: "User", bot: "Bot", person: one.by }[who];
    shown.append(made("span", one.claimed ? `${name} (not said here, as the client claims)` : name, "who"), one.text);
    return shown;
  }));
  const agreed = turns.flatMap((turn) => turn.events).filter((event) => event.type === "Agreed").at(-1);
  if (agreed) pairs(at("agreed"), agreed.values);
  at("read").scrollTop = at("read").scrollHeight;
}

function showCall(called) {
  at("call").hidden = !called;
  if (!called) return;
  at("call").querySelector("h3").textContent = `The call: ${called.name}`;
  pairs(at("call"), { ...called.arguments, ...("result" in called ? { "→ result": called.result } : {}) });
}

function pairs(section, values) {
  const shown = Object.entries(values ?? {}).flatMap(([key, value]) =>
    [made("dt", key), made("dd", typeof value === "string" ? value : JSON.stringify(value, null, 1))]);
  section.querySelector("dl").replaceChildren(...shown);
  section.hidden = false;
}

async function follow(pause) {
  following?.abort(); // a browser opens six connections to a server, so the stream before must not stay open
  const own = (following = new AbortController());
  while (!own.signal.aborted) {
    try {
      const stream = await call(path(pause.conversation_id, "/events"), undefined,
        { Accept: "text/event-stream" }, "GET", own.signal);
      for await (const [kind, data] of events(stream)) {
        if (own.signal.aborted) return;
        if (kind === "conversation" || kind === "turn") await happened(pause, kind, data);
      }
    } catch (error) {
      if (own.signal.aborted || (error.status >= 400 && error.status < 500)) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function happened(pause, kind, data) {
  if (kind === "turn") await read(pause);
  if (current === pause && data.paused?.id !== pause.id && !answering) over("This was answered, or its time is over.");
  refresh();
}

// Shows that the open pause waits no longer.
function over(words) {
  if (at("done").hidden) tell("done", words);
  at("act").hidden = true;
}

// -- the answer

function form(pause) {
  answer.replaceChildren();
  at("hand").open = pause.messages !== "record"; // who has taken over mostly talks first
  at("hand").classList.toggle("asks", pause.messages !== "record");
  if (pause.kind === "approval") return approval();
  if (pause.kind === "unknown_outcome") return outcome();
  const properties = pause.schema.type === "object" || pause.schema.properties ? pause.schema.properties ?? {} : null;
  const required = new Set(pause.schema.required ?? []);
  const fields = properties === null || !Object.keys(properties).length
    ? null : Object.entries(properties).map(([key, schema]) => [key, field(key, schema, required.has(key))]);
  const whole = fields === null ? field("Answer", pause.schema, true) : null;
  const value = () => {
    if (whole) return whole();
    const given = fields.map(([key, get]) => [key, get()]).filter(([, one]) => one !== undefined);
    return Object.fromEntries(given);
  };
  buttons([pause.messages === "record" ? "Hand back" : "Answer", value, "main"]);
}

function approval() {
  const reason = field("Reason", { type: "string", description: "For a refusal; the bot reads it." }, false);
  buttons(["Approve", () => ({ approved: true }), "main"], ["Refuse", () => {
    const why = reason();
    return why === undefined ? { approved: false } : { approved: false, reason: why };
  }]);
}

function outcome() {
  const came = field("What came of the call", { description: "JSON, or a text." }, false);
  const needed = () => {
    const given = came();
    if (given === undefined) throw new Error("Write what came of the call.");
    return given;
  };
  buttons(["It worked", () => ({ result: needed() }), "main"], ["It failed", () => ({ error: String(needed()) })],
    ["Make the call again", () => ({ repeat: true })]);
}

function buttons(...wanted) {
  const row = made("div", "", "buttons");
  for (const [label, value, kind] of wanted) {
    const button = made("button", label, kind);
    button.type = "button";
    button.addEventListener("click", () => give(value));
    row.append(button);
  }
  answer.append(row);
}

// Adds a field for a schema, and returns a function that reads its value; undefined for none.
function field(key, schema, isRequired) {
  const title = schema.title ?? key;
  const isChoice = schema.type === "boolean";
  const holder = document.createElement(isChoice ? "fieldset" : "label");
  holder.append(made(isChoice ? "legend" : "span", isRequired ? title : `${title} (optional)`, "label"));
  const missing = () => {
    if (isRequired) throw new Error(`${title} is missing.`);
    return undefined;
  };
  let get;
  if (isChoice) {
    const group = `f${newKey()}`;
    const options = [["Yes", true], ["No", false]].map(([words, value]) => {
      const radio = Object.assign(document.createElement("input"), { type: "radio", name: group });
      const label = document.createElement("label");
      label.append(radio, words);
      holder.append(label);
      return [radio, value];
    });
    get = () => options.find(([radio]) => radio.checked)?.[1] ?? missing();
  } else if (Array.isArray(schema.enum)) {
    const select = document.createElement("select");
    select.append(new Option("", ""), ...schema.enum.map((one, place) => new Option(`${one}`, `${place}`)));
    holder.append(select);
    get = () => (select.value === "" ? missing() : schema.enum[Number(select.value)]);
  } else if (schema.type === "number" || schema.type === "integer") {
    const input = Object.assign(document.createElement("input"), { type: "number", step: schema.type === "integer" ? "1" : "any" });
    holder.append(input);
    get = () => (input.value === "" ? missing() : Number(input.value));
  } else {
    const isText = schema.type === "string";
    const type = { date: "date", email: "email" }[schema.format];
    const input = isText && type ? Object.assign(document.createElement("input"), { type }) : document.createElement("textarea");
    if (input.rows) input.rows = 1;
    holder.append(input);
    get = () => (input.value.trim() === "" ? missing() : isText ? input.value : parsed(input.value, schema));
  }
  if (schema.description) holder.append(made("small", schema.description));
  answer.append(holder);
  return get;
}

function parsed(words, schema) {
  try {
    return JSON.parse(words);
  } catch {
    if (schema.type) throw new Error("This value is JSON: a text stands in quotation marks.");
    return words;
  }
}

async function give(value) {
  const pause = current;
  tell("problem", "");
  let given;
  try {
    given = value();
  } catch (error) {
    tell("problem", error.message);
    return;
  }
  busy(answering = true);
  try {
    const turn = await json(path(pause.conversation_id, "/answer"), { value: given, pause: pause.id },
      { "Idempotency-Key": newKey() });
    if (current === pause) {
      over(turn.ended ? "Done: the conversation has ended." : "Done: the bot goes on.");
      await read(pause);
    }
  } catch (error) {
    if (current !== pause) return;
    tell("problem", error.message);
    if (error.status === 409) over("Somebody else was faster, or the time is over. Your answer was not used.");
  } finally {
    busy(answering = false);
    refresh();
  }
}

function busy(is) {
  for (const one of at("act").querySelectorAll("button, input, select, textarea")) one.disabled = is;
}

say.addEventListener("submit", async (event) => {
  event.preventDefault();
  const [pause, words] = [current, text.value];
  if (!words.trim()) return;
  if (!name.value.trim()) {
    tell("problem", "Write your name at the top first: the user reads who says it.");
    name.focus();
    return;
  }
  tell("problem", "");
  text.value = "";
  try {
    await call(path(pause.conversation_id, "/say"), { text: words, by: name.value.trim() }, { "Idempotency-Key": newKey() });
    if (current === pause) await read(pause);
  } catch (error) {
    if (current !== pause) return;
    text.value = words;
    tell("problem", error.message);
  }
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    say.requestSubmit();
  }
});
answer.addEventListener("submit", (event) => event.preventDefault());
at("back").addEventListener("click", () => {
  following?.abort();
  current = null;
  document.body.classList.remove("open");
  at("case").hidden = true;
  at("none").hidden = false;
  refresh();
});
at("other").addEventListener("click", () => askToken().then(refresh));
name.value = localStorage.getItem("llm-fsm-operator-name") ?? "";
name.addEventListener("change", () => localStorage.setItem("llm-fsm-operator-name", name.value.trim()));
for (;;) {
  if (!document.hidden && !at("ask").open) await refresh();
  await new Promise((resolve) => setTimeout(resolve, REFRESH));
}
