"""Take the pictures of the studio with a browser: `python -m website.studio_pictures`, also run by
`website.pictures`.

Needs Chromium. The machine is one of eight states, so that its whole picture can be read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page, sync_playwright

from website.prepare import DOCS

PICTURES = DOCS / "pictures"
WINDOW = {"width": 1280, "height": 900}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
REFUND: dict[str, Any] = {
    "name": "refund_desk",
    "description": "A refund: find the order, hear the reason, offer a voucher or the money.",
    "persona": "The friendly desk of a shop for garden tools.",
    "initial_state": "order",
    "context_schema": {
        "type": "object",
        "properties": {
            "order_number": {
                "type": "string",
                "description": "Number of the order",
                "pattern": "^[0-9]{4}$",
            },
            "reason": {
                "type": "string",
                "enum": ["broken", "late", "dislike"],
                "description": "Why it comes back",
            },
            "voucher": {"type": "boolean", "description": "The customer takes a voucher"},
        },
    },
    "states": {
        "order": {
            "purpose": "Ask for the number of the order",
            "reply": "Which order is it? It has four digits.",
            "required_context_keys": ["order_number"],
            "transitions": [
                {
                    "target_state": "reason",
                    "description": "The number is known",
                    "conditions": [{"requires_context_keys": ["order_number"]}],
                }
            ],
        },
        "reason": {
            "purpose": "Ask why it comes back",
            "reply": "What is wrong with it?",
            "required_context_keys": ["reason"],
            "transitions": [
                {
                    "target_state": "photo",
                    "description": "It arrived broken",
                    "conditions": [{"logic": {"==": [{"var": "reason"}, "broken"]}}],
                },
                {
                    "target_state": "voucher",
                    "description": "It came late, or is not liked",
                    "conditions": [{"logic": {"!=": [{"var": "reason"}, "broken"]}}],
                },
            ],
        },
        "photo": {
            "purpose": "Ask for a photo of the damage",
            "transitions": [{"target_state": "money", "description": "The photo shows the damage"}],
        },
        "voucher": {
            "purpose": "Offer a voucher of the same value",
            "required_context_keys": ["voucher"],
            "transitions": [
                {
                    "target_state": "sent",
                    "description": "The customer takes it",
                    "conditions": [{"logic": {"==": [{"var": "voucher"}, True]}}],
                },
                {
                    "target_state": "money",
                    "description": "The customer wants the money",
                    "conditions": [{"logic": {"==": [{"var": "voucher"}, False]}}],
                },
            ],
        },
        "money": {
            "purpose": "Say when the money will be there",
            "transitions": [{"target_state": "paid", "description": "The customer agrees"}],
        },
        "sent": {"kind": "final", "purpose": "Say goodbye", "reply": "The voucher is on its way."},
        "paid": {"kind": "final", "purpose": "Say goodbye", "reply": "The money is on its way."},
        "person": {
            "kind": "final",
            "purpose": "Hand over to a colleague",
            "reply": "A colleague takes over.",
        },
    },
    "global_transitions": [
        {"target_state": "person", "description": "The customer wants a person"}
    ],
}


def main() -> None:
    """Take every picture anew, in light and in dark colours."""
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    switches = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        text = json.dumps(REFUND, indent=2) + "\n"
        (folder / "refund_desk.json").write_text(text, encoding="utf-8")
        broken = text.replace('"target_state": "paid"', '"target_state": "payed"', 1)
        (folder / "broken.json").write_text(broken, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=browser_path, args=switches)
        with studio(folder) as address:
            for scheme in SCHEMES:
                context = browser.new_context(viewport=WINDOW, color_scheme=scheme)  # type: ignore[arg-type]
                _take(context.new_page(), address, scheme)
                context.close()
        browser.close()


@contextmanager
def studio(folder: Path) -> Iterator[str]:
    """Run a studio of a folder on a free port.

    Args:
        folder: The folder.

    Yields:
        Its address with the token.
    """
    command = [sys.executable, "-m", "llm_fsm.editor", str(folder), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        words = server.stdout.readline().split()
        yield next(word for word in words if word.startswith("http"))
    finally:
        server.terminate()
        server.wait()


def _take(page: Page, address: str, scheme: str) -> None:
    base, _, token = address.partition("#")

    def shot(name: str) -> None:
        page.mouse.move(5, WINDOW["height"] - 5)
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURES / f"studio-{name}-{scheme}.png", scale="css")

    page.goto(f"{base}?file=refund_desk.json#{token}")
    page.get_by_role("button", name="Close the panel").click()
    page.get_by_role("group", name="State order,").wait_for()
    shot("canvas")
    page.get_by_role("button", name="Side panel").click()
    _view(page, "Outline")
    page.get_by_role("list", name="States").get_by_role("button", name="voucher talks").click()
    shot("outline")
    _view(page, "Text")
    page.get_by_label("Text of the definition").wait_for()
    shot("text")
    _view(page, "Canvas")
    page.get_by_role("tab", name="Talk").click()
    page.get_by_role("button", name="Start", exact=True).click()
    message = page.get_by_label("Your message")
    message.fill("It is order 4711")
    message.press("Enter")
    page.get_by_role("button", name="Why turn 1").click()
    page.get_by_role("region", name="Turn 1").wait_for()
    shot("talk")
    page.goto(f"{base}?file=broken.json#{token}")
    page.get_by_role("tab", name="Findings").click()
    page.get_by_role("region", name="Findings").get_by_text("payed").first.wait_for()
    shot("findings")


def _view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("button", name=name).click()


if __name__ == "__main__":
    main()
