// The chat page: one conversation with one definition over the REST door.
import { caller, events, newKey } from "./client.js";

const { call, pages } = caller("llm-fsm-token");
const at = (id) => document.getElementById(id);
const [definitions, messages, problem, state] = ["definition", "messages", "problem", "state"].map(at);
const [choices, answer, say, text] = ["choices", "answer", "say", "text"].map(at);
let conversation = null;
const kept = "llm-fsm-conversation"; // the name under which this browser tab remembers the conversation
let early = ""; // a message that was sent before the first conversation had begun
let following = null; // ends the stream of what happens between messages
let foreign = false; // the conversation waits for a colleague's answer
let unsent = null; // a message whose answer did not arrive: it is sent again under its own key

// Shows words of the user, the bot, or a person of the house (`by`), or a note.
function show(who, words, by = "") {
  const line = document.createElement("li");
  const name = document.createElement("span");
  name.className = by ? "by" : "hidden";
  name.textContent = by || { user: "You: ", bot: "Bot: ", note: "" }[who];
  const said = document.createTextNode(words);
  line.className = who;
  line.append(name, said);
  messages.append(line);
  scroll();
  return said;
}

function scroll() {
  messages.parentElement.scrollTop = messages.parentElement.scrollHeight;
}

function fail(error) {
  problem.textContent = `${error.message || error}`;
  problem.hidden = false;
}

async function turn(path, body, key) {
  busy(true);
  problem.hidden = true;
  let said = null;
  const wait = waiting();
  try {
    const answer = await call(`conversations/${encodeURIComponent(conversation)}/${path}`, body,
      { Accept: "text/event-stream", "Idempotency-Key": key });
    const places = {};
    let whole = false;
    for await (const [name, data] of events(answer)) {
      if (name === "reading") wait.read(data);
      else if (name === "delta") {
        wait.end();
        said ??= show("bot", "");
        said.data = data.restart ? data.text : said.data + data.text;
        scroll();
      } else if (name === "tool") show("note", `${data.name} ${data.failed || data.refused ? "failed" : "ran"}`);
      else if (name === "context") Object.assign(places, data.quotes);
      else if (name === "state") state.textContent = data.state;
      else if (name === "error") throw new Error(data.detail);
      else if (name === "turn") {
        if (data.text) (said ??= show("bot", "")).data = data.text;
        noted(places, data.number, body.text);
        whole = true;
        unsent = null;
        after(data);
      }
    }
    if (!whole) throw new Error("the connection broke off; send the message again");
  } catch (error) {
    said?.parentElement.remove();
    fail(error);
    if (error.status === 410) after({ state: state.textContent, ended: true });
  } finally {
    wait.end();
    busy(false);
  }
}

// Shows the seconds until the first word, and the part of the prompt that a local server has read. A long wait stays.
function waiting() {
  const began = performance.now();
  let [line, read] = [null, ""];
  const seconds = () => ((performance.now() - began) / 1000).toFixed(1);
  const timer = setInterval(() => {
    if (Number(seconds()) < 2) return;
    line ??= show("note", "");
    line.data = `thinking ${seconds()} s${read}`;
  }, 200);
  return {
    read: (now) => (read = ` · prompt read: ${now.read} of ${now.total} tokens`),
    end() {
      clearInterval(timer);
      if (line) line.data = `first word after ${seconds()} s`;
      line = null;
    },
  };
}

// Shows which words of this message were noted. Places count characters, not units of UTF-16.
function noted(places, number, text) {
  for (const [key, [message, start, end]] of Object.entries(places)) {
    if (message !== number) continue; // the words are in an earlier message
    const words = [...(text || "")].slice(start, end).join("");
    if (words) show("note", `Noted: ${key.replaceAll("_", " ")} “${words}”`);
  }
}

// Shows what happens between messages: reminders, time-outs, words of the program. Its own turns are shown by `turn`.
async function follow(id) {
  let last = null;
  following?.abort(); // a browser opens six connections to a server, so the stream before must not stay open
  const own = (following = new AbortController());
  while (!own.signal.aborted) {
    try {
      const path = `conversations/${encodeURIComponent(id)}/events`;
      const headers = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
      const stream = await call(path, undefined, headers, "GET", own.signal);
      for await (const [name, data, place] of events(stream)) {
        if (own.signal.aborted) return;
        last = place ?? last;
        if (name !== "turn") continue;
        if (!["due", "update", "end"].includes(data.kind) && !(foreign && data.kind === "answer")) continue;
        if (data.text) show("bot", data.text, data.by);
        after(data);
      }
    } catch (error) {
      if (error.status >= 400 && error.status < 500) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function after(now) {
  state.textContent = now.state;
  ask(now.paused);
  offer(now.choices || []);
  say.hidden = Boolean(now.ended || (now.paused && now.paused.messages === "refuse"));
  if (now.ended) show("note", "The conversation has ended.");
  scroll();
}

function offer(found) {
  choices.hidden = !found.length;
  choices.replaceChildren(...found.map((choice) => button(choice.label, () => send(choice.label, true, choice.question))));
}

function button(label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", act);
  return made;
}

function ask(paused) {
  answer.hidden = !paused;
  answer.replaceChildren();
  foreign = Boolean(paused && (!paused.may_answer || paused.messages === "record"));
  if (!paused) return;
  const told = document.createElement("p");
  answer.append(told);
  if (foreign) {
    told.textContent = paused.may_answer ? "A person has taken over. The page /operator is theirs." : paused.what;
    return;
  }
  const call = paused.call ? `: ${paused.call.name} ${JSON.stringify(paused.call.arguments)}` : "";
  told.textContent = `Waiting for ${paused.what}${call}`;
  const give = (value) => turn("answer", { value, pause: paused.id }, paused.id);
  if (paused.kind === "approval") {
    answer.append(button("Approve", () => give({ approved: true })), button("Refuse", () => give({ approved: false })));
    return;
  }
  const field = document.createElement("textarea");
  field.setAttribute("aria-label", "Your answer as JSON");
  field.placeholder = JSON.stringify(paused.schema);
  answer.append(field, button("Answer", () => {
    try {
      give(JSON.parse(field.value));
    } catch {
      fail("An answer is JSON: a text stands in quotation marks.");
    }
  }));
}

function busy(is) {
  for (const one of document.querySelectorAll("footer button, footer textarea")) one.disabled = is;
  messages.setAttribute("aria-busy", is);
  if (!is) (say.hidden ? answer.querySelector("button, textarea") : text)?.focus();
}

async function begin() {
  problem.hidden = true;
  messages.replaceChildren();
  offer([]);
  ask(null);
  say.hidden = false;
  unsent = null;
  busy(true);
  try {
    const found = await (await call("conversations", { definition: definitions.value })).json();
    conversation = found.id;
    sessionStorage.setItem(kept, conversation);
    if (found.greeting) show("bot", found.greeting);
    after(found);
    follow(found.id);
  } catch (error) {
    fail(error);
  } finally {
    busy(false);
  }
  if (conversation !== null && early) {
    const words = early;
    early = "";
    send(words);
  }
}

// Goes on with the conversation that this tab had before it was loaded again. Returns false if there is none.
async function goOn() {
  const id = sessionStorage.getItem(kept);
  if (!id) return false;
  const path = `conversations/${encodeURIComponent(id)}`;
  busy(true);
  try {
    const found = await (await call(path)).json();
    if (![...definitions.options].some((one) => one.value === found.definition)) return false;
    const said = await pages(`${path}/history`, "messages");
    definitions.value = found.definition;
    conversation = id;
    for (const one of said) if (one.text) show(one.role === "user" ? "user" : "bot", one.text, one.by);
    after(found);
    follow(id);
    return true;
  } catch (error) {
    if (error.status >= 400 && error.status < 500) return false; // deleted, or another person's
    throw error;
  } finally {
    busy(false);
  }
}

function send(words, picked = false, question = "") {
  if (!words.trim()) return;
  if (conversation === null) {
    early = words; // it stays in the field, and is sent when the conversation has begun
    return;
  }
  if (unsent === null || unsent.words !== words) {
    unsent = { words, picked, question, key: newKey() };
    show("user", words);
  }
  text.value = "";
  turn("messages", { text: words, picked: unsent.picked, question: unsent.question }, unsent.key).then(() => {
    if (unsent !== null) text.value = unsent.words;
  });
}

say.addEventListener("submit", (event) => {
  event.preventDefault();
  send(text.value);
});
answer.addEventListener("submit", (event) => event.preventDefault());
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    say.requestSubmit();
  }
});
definitions.addEventListener("change", begin);
at("new").addEventListener("click", begin);
try {
  const found = await (await call("definitions")).json();
  for (const one of found.definitions.filter((one) => !one.works_alone)) {
    definitions.append(new Option(one.name, one.name));
  }
  if (!definitions.options.length) fail("No definition of this server talks to people.");
  else if (!(await goOn())) await begin();
} catch (error) {
  fail(error);
}
