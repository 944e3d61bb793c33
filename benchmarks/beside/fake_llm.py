"""A fast fake of the OpenAI chat-completions HTTP API, for measuring LLM frameworks.

    python fake_llm.py --port 8765 [--delay-ms 0] [--token-delay-ms 0] [--policy form] [--record
    light]

Endpoints
  POST /v1/chat/completions   plain and `stream: true` (SSE), tool calls; a strict schema is obeyed
  GET  /v1/models
  POST /admin/config          {"delay_ms", "token_delay_ms", "record": "off|light|full",
  "pad_tokens"} POST /admin/reset           forget the recorded requests
  GET  /admin/stats           what was recorded, token-counted (counting happens here, not while
  serving) GET  /admin/count           how many requests there were
  POST /admin/sizes           {"rows": [index…]}: the prompt tokens of these requests
  GET  /admin/raw             the recorded request bodies (record=full only)

Records, per request: prompt characters, message count, tokens, response_format type, which policy
branch answered and the stability of the prompt's prefix: the longest common prefix (characters,
then tokens) with
  - the previous request of the same conversation        (lcp_prev)
  - the best-matching earlier request of that conversation (lcp_best; what a provider's prompt cache
    can use)
A conversation is named by the header `x-conversation-id`, else the body's `user`, else "default".

The server is a bare asyncio.Protocol over httptools and uvloop, with orjson: several times cheaper
per request than starlette/uvicorn, so that the server's cost stays small next to what is measured.
record=off parses the body, asks the policy and answers; record=full also keeps each body.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httptools
import orjson
from policy import Reply, load_policy

FIRST_WORD = "Thank"
"""With which the words for the user begin in every reply of the policy, `Done` of fsm-agent-flow
apart.
"""


def _count(encoding: Any, text: str) -> int:
    return len(encoding.encode(text, disallowed_special=()))


def load_encoder() -> tuple[str, Callable[[str], int]]:
    """How tokens are counted: cl100k from the file that litellm carries, as there may be no
    network.
    """
    spec = importlib.util.find_spec("litellm")
    for sub in ("litellm_core_utils/tokenizers", "llms/tokenizers"):
        path = Path(spec.origin).parent / sub
        if (path / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").exists():
            os.environ["TIKTOKEN_CACHE_DIR"] = str(path)
            import tiktoken

            encoding = tiktoken.get_encoding("cl100k_base")
            return "tiktoken cl100k_base", partial(_count, encoding)
    raise RuntimeError(
        "litellm no longer carries the cl100k file; give tiktoken one in TIKTOKEN_CACHE_DIR"
    )


def prompt_as_sent(body: dict) -> str:
    """The prompt as a provider reads it: tools, reply schema, messages. It is what a prefix cache
    keys on.
    """
    parts = []
    if body.get("tools"):
        parts.append(orjson.dumps(body["tools"]).decode())
    if body.get("response_format"):
        parts.append(orjson.dumps(body["response_format"]).decode())
    for m in body.get("messages", ()):
        c = m.get("content")
        parts.append(
            f"\n<|{m.get('role')}|>\n{c if isinstance(c, str) else orjson.dumps(c).decode()}"
        )
        if m.get("tool_calls"):
            parts.append(orjson.dumps(m["tool_calls"]).decode())
    return "".join(parts)


def common_prefix(a: str, b: str) -> int:
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    lo, hi = 0, n
    while lo < hi:
        mid = (lo + hi + 1) // 2
        if a[:mid] == b[:mid]:
            lo = mid
        else:
            hi = mid - 1
    return lo


class Recorder:
    def __init__(self, mode: str):
        self.mode = mode
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self.rows: list[dict[str, Any]] = []
        self.bodies: list[dict] = []

    def add(self, body: dict, conversation: str, reply: Reply, reply_text: str) -> None:
        self.count += 1
        if self.mode == "off":
            return
        self.rows.append(
            {
                "t": time.time(),
                "conversation": conversation,
                "messages": len(body.get("messages", ())),
                "prompt": prompt_as_sent(body),
                "told": prompt_as_sent({"messages": body.get("messages", ())}),
                "reply": reply_text,
                "kind": reply.kind,
                "stream": bool(body.get("stream")),
                "response_format": (body.get("response_format") or {}).get("type"),
                "tools": len(body.get("tools") or ()),
                "model": body.get("model"),
            }
        )
        if self.mode == "full":
            self.bodies.append(body)

    def stats(self, count_tokens) -> list[dict]:
        seen: dict[str, list[str]] = defaultdict(list)
        out = []
        for r in self.rows:
            prompt, earlier = r["prompt"], seen[r["conversation"]]
            lcp_prev = common_prefix(prompt, earlier[-1]) if earlier else 0
            lcp_best = max((common_prefix(prompt, e) for e in earlier[-64:]), default=0)
            row = {k: v for k, v in r.items() if k not in ("prompt", "reply", "told")}
            row |= {
                "prompt_chars": len(prompt),
                "prompt_tokens": count_tokens(prompt),
                "message_tokens": count_tokens(r["told"]),
                "completion_tokens": count_tokens(r["reply"]),
                "lead_tokens": count_tokens(r["reply"].partition(FIRST_WORD)[0]),
                "lcp_prev_chars": lcp_prev,
                "lcp_best_chars": lcp_best,
                "lcp_prev_tokens": count_tokens(prompt[:lcp_prev]),
                "lcp_best_tokens": count_tokens(prompt[:lcp_best]),
            }
            earlier.append(prompt)
            out.append(row)
        return out


class App:
    def __init__(self, policy, delay_ms: float, token_delay_ms: float, record: str):
        self.policy = policy
        self.delay = delay_ms / 1000
        self.token_delay = token_delay_ms / 1000
        self.rec = Recorder(record)
        self.n = 0
        self.encoder_name, self._count = None, None

    @property
    def count_tokens(self):
        if self._count is None:
            self.encoder_name, self._count = load_encoder()
        return self._count

    # -- admin
    def config(self, body: dict) -> dict:
        if "delay_ms" in body:
            self.delay = body["delay_ms"] / 1000
        if "token_delay_ms" in body:
            self.token_delay = body["token_delay_ms"] / 1000
        if "record" in body:
            self.rec.mode = body["record"]
        if "pad_tokens" in body:
            self.policy.pad_tokens = body["pad_tokens"]
        return {
            "delay_ms": self.delay * 1000,
            "token_delay_ms": self.token_delay * 1000,
            "record": self.rec.mode,
            "pad_tokens": getattr(self.policy, "pad_tokens", None),
        }

    def get(self, path: str) -> dict | None:
        if path == "/v1/models":
            return {
                "object": "list",
                "data": [{"id": "fake", "object": "model", "created": 0, "owned_by": "fake_llm"}],
            }
        if path == "/admin/stats":
            rows = self.rec.stats(self.count_tokens)
            return {"count": self.rec.count, "tokenizer": self.encoder_name, "requests": rows}
        if path == "/admin/count":
            return {"count": self.rec.count}
        if path == "/admin/raw":
            return {"bodies": self.rec.bodies}
        return None

    # -- completions
    def complete(self, body: dict, conversation: str | None) -> tuple[Reply, str, dict]:
        reply = self.policy.reply(body)
        self.n += 1
        ident = f"chatcmpl-{self.n}"
        message: dict[str, Any] = {"role": "assistant", "content": reply.content}
        text = reply.content or ""
        if reply.tool_calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{self.n}_{i}",
                    "type": "function",
                    "function": {
                        "name": t["name"],
                        "arguments": orjson.dumps(t["arguments"]).decode(),
                    },
                }
                for i, t in enumerate(reply.tool_calls)
            ]
            text += "".join(t["function"]["arguments"] for t in message["tool_calls"])
        self.rec.add(body, conversation or body.get("user") or "default", reply, text)
        # usage is a rough count (4 characters a token): exact counting happens in /admin/stats, off
        # the clock
        prompt_t = (
            sum(len(m["content"]) for m in body["messages"] if isinstance(m.get("content"), str))
            // 4
        )
        usage = {
            "prompt_tokens": prompt_t,
            "completion_tokens": len(text) // 4,
            "total_tokens": prompt_t + len(text) // 4,
        }
        return (
            reply,
            ident,
            {
                "id": ident,
                "object": "chat.completion",
                "created": int(time.time()),
                "model": body.get("model", "fake"),
                "choices": [
                    {
                        "index": 0,
                        "message": message,
                        "finish_reason": "tool_calls" if reply.tool_calls else "stop",
                    }
                ],
                "usage": usage,
            },
        )


_PIECES = re.compile(r"\s*\S+|\s+$")


def pieces(text: str) -> list[str]:
    """Token-like pieces for streaming: a word with its leading space; long words in fours."""
    out: list[str] = []
    for w in _PIECES.findall(text):
        out.extend(w[i : i + 8] for i in range(0, len(w), 8))
    return out


class Http(asyncio.Protocol):
    """HTTP/1.1 keep-alive; one request at a time per connection (no pipelining, which clients here
    do not use).
    """

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop):
        self.app, self.loop = app, loop

    def connection_made(self, transport):
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)

    def connection_lost(self, exc):
        self.transport = None

    def data_received(self, data):
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_message_begin(self):
        self.url, self.body, self.conversation = b"", [], None

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        if name.lower() == b"x-conversation-id":
            self.conversation = value.decode()
        elif name.lower() == b"expect":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, chunk):
        self.body.append(chunk)

    def on_message_complete(self):
        path = self.url.split(b"?")[0].decode()
        method = self.parser.get_method()
        app = self.app
        if method == b"GET":
            obj = app.get(path)
            self.send(
                obj if obj is not None else {"error": {"message": "not found"}},
                200 if obj is not None else 404,
            )
            return
        try:
            body = orjson.loads(b"".join(self.body) or b"{}")
        except orjson.JSONDecodeError:
            self.send({"error": {"message": "bad json"}}, 400)
            return
        if path == "/admin/config":
            self.send(app.config(body))
            return
        if path == "/admin/sizes":
            chosen = [app.rec.rows[at]["prompt"] for at in body["rows"]]
            self.send({"prompt_tokens": [app.count_tokens(prompt) for prompt in chosen]})
            return
        if path == "/admin/reset":
            app.rec.reset()
            self.send({"ok": True})
            return
        if not path.endswith("/chat/completions"):
            self.send({"error": {"message": "not found"}}, 404)
            return
        reply, ident, response = app.complete(body, self.conversation)
        if body.get("stream"):
            self.loop.create_task(self.stream(body, ident, response))
        elif app.delay or app.token_delay:
            wait = app.delay
            if (
                app.token_delay
            ):  # a reply that is not streamed still takes its generation time, tool calls too
                wait += app.token_delay * len(
                    pieces(
                        (reply.content or "")
                        + "".join(str(t["arguments"]) for t in reply.tool_calls)
                    )
                )
            self.loop.call_later(wait, self.send, response)
        else:
            self.send(response)

    def send(self, obj, status: int = 200):
        if self.transport is None:
            return
        payload = orjson.dumps(obj)
        reason = b"OK" if status == 200 else b"Error"
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
            % (status, reason, len(payload), payload)
        )

    async def stream(self, body: dict, ident: str, response: dict):
        app, message = self.app, response["choices"][0]["message"]
        base = {
            "id": ident,
            "object": "chat.completion.chunk",
            "created": response["created"],
            "model": response["model"],
        }

        def event(delta, finish=None, **extra) -> bool:
            if self.transport is None:
                return False
            data = (
                b"data: "
                + orjson.dumps(
                    {
                        **base,
                        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
                        **extra,
                    }
                )
                + b"\n\n"
            )
            self.transport.write(b"%x\r\n%s\r\n" % (len(data), data))
            return True

        if app.delay:
            await asyncio.sleep(app.delay)
        if self.transport is None:
            return
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        event({"role": "assistant", "content": ""})
        start, k = self.loop.time(), 0
        for piece in pieces(message.get("content") or ""):
            if app.token_delay:
                k += 1  # paced against the clock, so that timer slack does not add up
                await asyncio.sleep(max(0.0, start + k * app.token_delay - self.loop.time()))
            if not event({"content": piece}):
                return
        for i, t in enumerate(message.get("tool_calls") or ()):
            event(
                {
                    "tool_calls": [
                        {
                            "index": i,
                            "id": t["id"],
                            "type": "function",
                            "function": {"name": t["function"]["name"], "arguments": ""},
                        }
                    ]
                }
            )
            for piece in pieces(t["function"]["arguments"]):
                if app.token_delay:
                    await asyncio.sleep(app.token_delay)
                event({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
        event({}, response["choices"][0]["finish_reason"])
        if (body.get("stream_options") or {}).get("include_usage"):
            data = (
                b"data: "
                + orjson.dumps({**base, "choices": [], "usage": response["usage"]})
                + b"\n\n"
            )
            self.transport and self.transport.write(b"%x\r\n%s\r\n" % (len(data), data))
        if self.transport:
            data = b"data: [DONE]\n\n"
            self.transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))


async def serve(args) -> None:
    loop = asyncio.get_running_loop()
    app = App(
        load_policy(args.policy, pad_tokens=args.pad_tokens),
        args.delay_ms,
        args.token_delay_ms,
        args.record,
    )
    server = await loop.create_server(lambda: Http(app, loop), "127.0.0.1", args.port, backlog=4096)
    print(f"fake_llm on http://127.0.0.1:{args.port}/v1 pid {os.getpid()}", flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--port", type=int, default=8765)
    p.add_argument("--delay-ms", type=float, default=0)
    p.add_argument("--token-delay-ms", type=float, default=0)
    p.add_argument("--policy", default="form")
    p.add_argument("--pad-tokens", type=int, default=0)
    p.add_argument("--record", choices=["off", "light", "full"], default="light")
    args = p.parse_args()
    try:
        import uvloop

        uvloop.install()
    except ImportError:
        pass
    try:
        asyncio.run(serve(args))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
