"""Whether a definition is written in English."""

from __future__ import annotations

import pytest

from llm_fsm.definition.models import Definition
from llm_fsm.turn.fixed_replies import is_english


@pytest.mark.parametrize(
    ("said", "english"),
    [
        ({"purpose": "Which size – 5 €, 8 €…?"}, True),
        ({"purpose": "Größe"}, False),
        ({"description": "お名前"}, False),
        ({"reply": "ما اسمك"}, False),
        ({"instructions": "Größe"}, True),
        ({"purpose": "Ask which café the user means"}, True),
        ({"purpose": "Nach der Größe fragen", "description": "Is für später"}, False),
        ({"purpose": "Naam van de klant vragen"}, False),
        ({"purpose": "Menanyakan nama pelanggan", "description": "Nomor telepon"}, False),
        ({"purpose": "Chiedere il nome", "reply": "Qual è il nome?"}, False),
        ({"purpose": "Collect name", "description": "Customer data"}, True),
        ({"purpose": "Greet", "description": "El Paso office"}, True),
        ({"purpose": "Book hotel", "description": "Las Vegas, Los Angeles or Rio de Janeiro"}, True),
        ({"purpose": "Ask Dan", "description": "Ask Dan again"}, True),
        ({"purpose": "Recoger la dirección de la clienta"}, False),
        ({"reply": "Für {% if name is defined and size is defined %}{{ name }}{% endif %}?"}, False),
    ],
)
def test_letters_and_common_words_tell_where_english_words_are_foreign(said: dict[str, str], english: bool) -> None:
    assert is_english(Definition.model_validate({"name": "m", "initial_state": "a", "states": {"a": said}})) is english


def test_labels_of_keys_tell_where_english_words_are_foreign() -> None:
    document = {"name": "m", "initial_state": "a", "states": {"a": {}}}
    keys = {"k": {"title": "Straße"}}
    assert not is_english(Definition.model_validate({**document, "context_schema": {"properties": keys}}))
