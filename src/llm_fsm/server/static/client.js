// What the pages share: calls with a token, and server-sent events.

// Returns a function that calls the server. It asks for a token in the dialog `ask` where the server wants one.
// `place`: the name under which this browser tab keeps the token.
export function caller(place) {
  let token = sessionStorage.getItem(place);

  // `refused`: true if the server has just refused a token.
  function askToken(refused = false) {
    const dialog = document.getElementById("ask");
    const field = document.getElementById("token");
    document.getElementById("unknown").hidden = !refused;
    dialog.showModal();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => {
        token = field.value.trim();
        field.value = "";
        sessionStorage.setItem(place, token);
        resolve();
      }, { once: true });
    });
  }

  async function call(path, body, headers = {}, method = body === undefined ? "GET" : "POST", signal = undefined) {
    const answer = await fetch(path, {
      method,
      signal,
      headers: {
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.status === 401) {
      await askToken(Boolean(token));
      return call(path, body, headers, method, signal);
    }
    if (!answer.ok) {
      const found = await answer.json().catch(() => ({ detail: `the server answered ${answer.status}` }));
      throw Object.assign(new Error(found.detail), { status: answer.status });
    }
    return answer;
  }

  // Returns all items of a list that comes in pages.
  async function pages(path, name) {
    const found = [];
    for (let next = 0; next !== null;) {
      const page = await (await call(`${path}?limit=1000&after=${next}`)).json();
      found.push(...page[name]);
      next = page.next;
    }
    return found;
  }

  return { call, askToken, pages };
}

// Yields the server-sent events of an answer: [name, data, id] each.
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").filter((line) => /^(id|event|data): /.test(line))
        .map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
      if (fields.data) yield [fields.event, JSON.parse(fields.data), fields.id];
    }
  }
}

// Returns a key that nobody used before, for requests that may be sent twice.
export function newKey() {
  return crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
}
