"""Tables of the documents."""

from __future__ import annotations

from paths import ROOT


def rows(document: str, header: str) -> list[list[str]]:
    """The cells of the table below a header line, without backticks."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines[lines.index(header) + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip().replace("`", "") for cell in line.strip("|").split(" | ")])
    return found
