"""Bars as PNG files, drawn in the server's environment: python plots.py FOLDER < data.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


def draw(found: dict, path: Path) -> None:
    """One section: a bar a system, ours coloured, the value beside it."""
    rows = found["rows"][::-1]
    names, values = [name for name, _ in rows], [value for _, value in rows]
    figure, axes = plt.subplots(figsize=(7.5, 0.6 + 0.32 * len(rows)))
    colours = ["#1f6feb" if name.startswith("llm_fsm") else "#b6bcc4" for name in names]
    bars = axes.barh(names, values, color=colours)
    axes.bar_label(bars, labels=[f"{value:,.4g}" for value in values], padding=3, fontsize=8)
    spread = max(values) / max(min(values), 1e-9)
    if spread > 60:
        axes.set_xscale("log")
    axes.margins(x=0.18)
    axes.set_title(found["title"], fontsize=10, loc="left")
    axes.set_xlabel(found["label"] + (", logarithmic" if spread > 60 else ""), fontsize=8)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in json.load(sys.stdin).items():
        if found["rows"]:
            draw(found, folder / f"{name}.png")
