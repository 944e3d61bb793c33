"""A bot behind the webhook of a messaging provider, with nothing but the standard library.

Run:  WEBHOOK_SECRET=change-me LLM_FSM_MODEL=offline python examples/web/webhook_bot.py [PORT]

The provider posts {"id": "message id", "thread": "conversation id", "text": "…"} and signs the
body: `X-Signature-256: sha256=` and the hexadecimal HMAC-SHA256 under the shared secret. The answer
is {"text": "…"}. Providers deliver a message again when the answer was late or got lost: its id is
the request id here, so the second delivery gets the recorded answer, and no model is called.
"""

import hashlib
import hmac
import json
import os
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from llm_fsm import ConversationConflict, ConversationEnded, Machine, ModelError, StoreError

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "support_desk.json"
MAX_BODY = 100_000


def is_signed(secret: bytes, body: bytes, signature: str) -> bool:
    """Whether the signature is that of the body; takes the same time whatever is wrong with it."""
    expected = "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


def answer(machine: Machine, message: dict[str, Any]) -> tuple[int, dict[str, str]]:
    """HTTP status and body for one delivery."""
    fields = [message.get(name) for name in ("thread", "text", "id")]
    if not all(isinstance(field, str) for field in fields):
        return 400, {"error": "id, thread and text must be texts"}
    thread, text, message_id = map(str, fields)
    try:
        chat = machine.open(thread, greet=False)  # the user spoke first, so nobody is greeted
        return 200, {"text": chat.send(text, request_id=message_id).text}
    except ConversationEnded as error:
        return 200, {"text": str(error)}
    except ValueError as error:
        return 400, {"error": str(error)}
    except (ModelError, StoreError, ConversationConflict) as error:
        return 503, {"error": str(error)}  # nothing was saved: the provider may deliver it again


class Webhook(BaseHTTPRequestHandler):
    """Takes deliveries on any path."""

    def __init__(self, *args: Any, machine: Machine, secret: bytes) -> None:
        self.machine = machine
        self.secret = secret
        super().__init__(*args)

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > MAX_BODY:
            return self.reply(413, {"error": f"a body of at most {MAX_BODY} bytes is needed"})
        body = self.rfile.read(int(size))
        if not is_signed(self.secret, body, self.headers.get("X-Signature-256", "")):
            return self.reply(401, {"error": "the signature does not fit"})
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return self.reply(400, {"error": "the body is not JSON"})
        if not isinstance(message, dict):
            return self.reply(400, {"error": "the body must be one JSON object"})
        return self.reply(*answer(self.machine, message))

    def reply(self, status: int, document: dict[str, str]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no addresses and no texts."""


def serve(machine: Machine, secret: bytes, port: int) -> ThreadingHTTPServer:
    """A server on the loopback that is ready for `serve_forever`; port 0 takes any free one."""
    return ThreadingHTTPServer(
        ("127.0.0.1", port), partial(Webhook, machine=machine, secret=secret)
    )


def main() -> None:
    secret = os.environ.get("WEBHOOK_SECRET", "").encode()
    if not secret:
        sys.exit("set WEBHOOK_SECRET to the secret that you share with the provider")
    with (
        Machine.from_file(DEFINITION, store="sqlite:///webhook.db") as machine,
        serve(machine, secret, int(sys.argv[1]) if len(sys.argv) > 1 else 8080) as server,
    ):
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    main()
