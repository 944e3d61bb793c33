"""Fixed replies: rendered, bounded and harmless."""

from __future__ import annotations

import pytest

from llm_fsm.turn.fixed_replies import (
    WordingError,
    compile_reply,
    own_question,
    sentence,
)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Hello", "Hello"),
        ("Hello {{ name }}!", "Hello Ada!"),
        ("[{{ nothing }}{{ nothing.at.all }}]", "[]"),
        ("{{ n + 1 }} {{ name | upper }} {{ items | join(', ') }}", "3 ADA a, b"),
        ("{% if n > 1 %}many{% else %}one{% endif %}", "many"),
        ("<b>{{ name }}</b>", "<b>Ada</b>"),
        ("{{ '{:.2f} {}'.format(n, items) }}", "2.00 ['a', 'b']"),
        ("{{ '%.2f %%'|format(n) }} {{ '%s/%03d' % (name, n) }} {{ '%(a)s'|format(a=n) }}", "2.00 % Ada/002 2"),
        ("[{{ '%s' % nothing }}]", "[]"),
        ("{{ name ~ n ~ nothing }} {{ name + '!' }} {{ n + 1.5 }} {{ [1] + [n] }}", "Ada2 Ada! 3.5 [1, 2]"),
        ("{{ name|replace('d', n) }} {{ 'a,a'.replace('a', 'b', 1) }} {{ ', '.join(items) }}", "A2a b,a a, b"),
        ("{{ ('a,' ~ long)|replace('a', long, 1)|length }} {{ 'a,a'.replace('a', long, 1)|length }}", "16001 8002"),
        ("{{ rows|join('/', attribute='at') }} {{ 'a b'|wordwrap(120, wrapstring='-') }}", "1/2 a b"),
        ("{% for a in items %}{{ loop.index }}/{{ loop.length }}{{ a }}{% endfor %}", "1/2a2/2b"),
        ("{% for a in items|reverse %}{{ a }}{% endfor %}{% for a in nothing %}{% else %}-{% endfor %}", "ba-"),
        ("{% for a in rows if a.at > 1 %}{{ a.at }}{% endfor %}", "2"),
        ("{% for a, b in {1: 2}.items() %}{{ b }}{% endfor %}", "2"),
        ("{% for a in items recursive %}{{ a }}{{ loop([]) }}{% endfor %}", "ab"),
        ("{{ 150.26|round(1) }} {{ 150|tojson(indent=2) }}", "150.3 150"),
    ],
)
def test_fixed_replies_are_expressions_over_context(source: str, text: str) -> None:
    data = {"name": "Ada", "n": 2, "items": ["a", "b"], "rows": [{"at": 1}, {"at": 2}], "long": "a" * 8_000}
    assert compile_reply(source).render(data) == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 1000000000 }}",
        "{{ [1] * 99999999 }}",
        "{{ 10 ** 10 ** 10 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%.999999999f'|format(1) }}",
        "{{ '%*d'|format(999999999, 1) }}",
        "{{ '" + "%s" * 200 + "'|format(long)|length }}",
        "{{ '" + "%(a)s" * 90 + "'|format(a=long)|length }}",
        "{{ name.__class__.__mro__[1].__subclasses__() }}",
        "{{ items.append(1) }}",
        "{{ range(100000000) | list }}",
        "{{ nothing + 1 }}",
        "{{ 1 / 0 }}",
        "{{ name | center(1000000000) }}",
        "{% for a in items %}{% for b in items %}{{ long }}{% endfor %}{% endfor %}",
        "{{ '{0.__class__}'.format(1) }}{{ name() }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:.999999999f}'.format_map({'': 1}) }}",
        "{{ '{:{}}'.format(1, 999999999) }}",
        "{{ wide.format(1) }}",
        "{{ 1|round(900, 'ceil') }}",
        "{{ [1]|map('round', precision=900)|first }}",
        "{{ items|tojson(indent=900) }}",
        "{{ items|tojson(900) }}",
        "{{ 'xxxxxxxxxx'" + "|replace('x', 'xxxxxxxxxx')" * 9 + "|length }}",
        "{{ 'xxxxxxxxxx'" + ".replace('x', 'xxxxxxxxxx')" * 9 + "|length }}",
        "{{ long|replace('', long)|length }}",
        "{{ long|replace(old='x', new=long)|length }}",
        "{{ (long|list)|join(long)|length }}",
        "{{ long|list|join(d=long)|length }}",
        "{{ long.join(long|map('upper'))|length }}",
        "{{ long|wordwrap(1, wrapstring=long)|length }}",
        "{{ long|wordwrap(1, true, long)|length }}",
        "{{ ('a@b.cd ' ~ long)|urlize(target=long)|length }}",
        "{{ '" + "{0}" * 200 + "'.format(long)|length }}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(40) }}",
        "{% for a in long %}{% for b in long %}{% endfor %}{% endfor %}",
        "{% for a in long|map('upper') %}{% for b in items %}{% endfor %}{% endfor %}",
        "{% for a in items recursive %}{{ loop(items) }}{% endfor %}",
        "{{ long.translate({120: long})|length }}",
        "{% set a = long %}" + "{% set a = a ~ a %}" * 40 + "{{ a|length }}",
        "{% set a = long %}" + "{% set a = a + a %}" * 40 + "{{ a|length }}",
        "{% set a = items %}" + "{% set a = a + a %}" * 40 + "{{ a|length }}",
        "{% set a = items %}" + "{% set a = [a, a, a, a]|sum(start=[]) %}" * 20 + "{{ a|length }}",
        "{% set a = items %}" + "{% set a = [a, a, a, a] %}" * 10 + "{{ a|length }}",
        "{% set a = items %}" + "{% set a = (a, a, a, a) %}" * 10 + "{{ a|length }}",
        "{% set a = items %}" + "{% set a = {'b': a, 'c': a, 'd': a, 'e': a} %}" * 10 + "{{ a|length }}",
        "{% set a = items %}" + "{% set a = dict(b=a, c=a, d=a, e=a) %}" * 10 + "{{ a|length }}",
        "{% set a = '\"' %}{% set a = a" + "|tojson" * 40 + " %}{{ a|length }}",
        "{% macro a() %}{{ long }}{% endmacro %}{{ (a()" + " ~ a()" * 7 + ")|length }}",
    ],
)
def test_hostile_templates_are_errors_and_cost_little(source: str) -> None:
    with pytest.raises(WordingError):
        compile_reply(source).render({"name": "Ada", "items": ["a"] * 20, "long": "x" * 16_000, "wide": "{:999999999}"})


@pytest.mark.parametrize("source", ["{{ x", "{% if %}", "{{ }}", "{% include 'x' %}{{"])
def test_broken_templates_are_errors_at_load(source: str) -> None:
    with pytest.raises(WordingError, match="not a valid template"):
        compile_reply(source)


@pytest.mark.parametrize(
    ("purpose", "wanted", "text"),
    [
        ("Ask the name", {"full_name": {}}, "Ask the name. Still needed: full name."),
        ("What is it?", {"x": {"title": "The thing"}}, "What is it?"),
        ("Ask for the 10 kΩ resistor", {"part": {}}, "Ask for the 10 kΩ resistor. Still needed: part."),
        ("", {}, "Please go on."),
        ("お名前をお願いします。", {"n": {"title": "お名前"}}, "お名前をお願いします。"),
        ("お名前をお願いします。", {"p": {"title": "電話番号"}}, "お名前をお願いします。 電話番号?"),
        ("お名前をお願いします。", {"phone": {}}, "お名前をお願いします。"),
        ("お名前をお願いします。", {"電話番号": {}}, "お名前をお願いします。 電話番号?"),
        ("お名前をお願いします", {}, "お名前をお願いします。"),
        ("お名前(カタカナ)", {}, "お名前(カタカナ)。"),
        ("अपना नाम बताइए", {}, "अपना नाम बताइए।"),
        ("ስምዎን ይንገሩን።", {}, "ስምዎን ይንገሩን።"),
        ("กรุณาบอกชื่อ", {}, "กรุณาบอกชื่อ"),
        ("이름을 알려 주세요", {}, "이름을 알려 주세요."),
        ("Das wäre alles", {"k": {"title": "Kundennummer"}}, "Das wäre alles. Kundennummer?"),
        ("Die Kundennummer für uns", {"k": {"title": "Kundennummer"}}, "Die Kundennummer für uns."),
    ],
)
def test_a_state_without_words_has_a_plain_sentence(
    purpose: str, wanted: dict[str, dict[str, str]], text: str
) -> None:
    assert own_question(purpose, wanted, english=not purpose.startswith(("お", "D"))) == text


def test_sentences_end() -> None:
    assert [sentence(text) for text in ("a  b\nc", "a!", "")] == ["a b c.", "a!", ""]
    ended = ("お願いします。", "どうぞ！", "何ですか？", "ما اسمك؟", "आपका नाम।", "Πώς σας λένε;")
    assert [sentence(text) for text in ended] == list(ended)


@pytest.mark.parametrize(
    "text",
    [
        *("All set! 🚀", "Love it ❤️", "Hello 👋🏽", "We code 👩‍💻", "Done ✅", "Rate us ⭐", "Soon ⏰", "Press 1️⃣"),
        *("Go ⬆️", "Ours ™️", "Scots 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"),
    ],
)
def test_no_full_stop_follows_an_emoji(text: str) -> None:
    assert sentence(text) == text
    assert own_question(text, {}) == text


@pytest.mark.parametrize("text", ["Run `make`", "Heat it to 200°", "It costs 5 €", "See (below)"])
def test_a_full_stop_follows_other_signs(text: str) -> None:
    assert sentence(text) == f"{text}."
