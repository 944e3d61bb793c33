"""The page of an evaluation: one HTML file without scripts, which needs no network."""

from __future__ import annotations

from functools import cache

import jinja2

from llm_fsm._json import JsonMap
from llm_fsm._text import visible

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Evaluation</title><style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem; border-bottom: 1px solid #8884; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.wrong td:first-child { border-left: 4px solid #c62828; }
tr.right td:first-child { border-left: 4px solid #2e7d32; }
summary { cursor: pointer; padding: .3rem 0; }
small { opacity: .75; }
</style></head><body>
<h1>Evaluation</h1>
<p>A turn is right if its state, new values and acts are right, and nothing is invented, lost or harmful.</p>
<div class="wide"><table><thead><tr><th>figure</th>
{% for way in ways %}<th>{{ way.name | shown }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr><th>{{ row.name }}</th>
{% for cell in row.cells %}<td class="n">{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% if difference %}<p>Difference of the shares: {{ difference }}.</p>{% endif %}
{% for way in ways %}<h2>{{ way.name | shown }}</h2>
{% for dialogue in way.dialogues %}
{%- set judged = dialogue.turns | selectattr("judged") | list %}
{%- set right = judged | selectattr("right") | list %}
<details{% if right | length < judged | length %} open{% endif %}>
<summary>{{ dialogue.title | shown }} <small>{{ right | length }} of {{ judged | length }} right</small></summary>
<div class="wide"><table>
<thead><tr><th>user</th><th>machine</th><th>state</th><th>what is wrong</th></tr></thead><tbody>
{% for turn in dialogue.turns %}<tr class="{{ 'wrong' if turn.why else 'right' }}">
<td>{{ (turn.say or "") | shown }}</td>
<td>{{ turn.text | shown }}</td><td>{{ turn.state | shown }}</td><td>{{ turn.why | shown }}</td></tr>
{% endfor %}</tbody></table></div></details>
{% endfor %}{% endfor %}
</body></html>
"""


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["shown"] = visible
    return environment.from_string(_PAGE)


def page(report: JsonMap) -> str:
    """Return the page of a report.

    Args:
        report: {"ways": [{"name", "dialogues": dialogues}], "rows": [{"name", "cells"}],
            "difference": a sentence or ""}.
    """
    return _template().render(report) + "\n"
