"""One definition in several languages: chosen at the start, changed by the user, and said whole."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.definition.names import PATTERNS
from llm_fsm.engine.advice import LOGGER, advise
from llm_fsm.languages import language_of, spoken
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.memory import MemoryStore

SHOP: dict[str, Any] = {
    "name": "shop",
    "languages": ["de", "tr", "fr", "es"],
    "initial_state": "size",
    "patterns": [*PATTERNS],
    "context_schema": {
        "properties": {
            "size": {"enum": ["small", "large"], "title": "size", "description": "How large"},
            "day": {
                "type": "string",
                "format": "date",
                "title": "day of delivery",
                "x-ask": "Which day suits you?",
                "x-valid": [
                    {
                        "logic": {">": [{"var": "day"}, "2030-01-01"]},
                        "description": "The day must come after New Year",
                    }
                ],
            },
            "agreed": {"type": "boolean", "description": "True if the customer agrees"},
        }
    },
    "states": {
        "size": {
            "reply": "Hello! Should it be small or large?",
            "required_context_keys": ["size"],
            "transitions": [
                {
                    "target_state": "day",
                    "description": "The size is known",
                    "conditions": [{"requires_context_keys": ["size"]}],
                }
            ],
        },
        "day": {
            "purpose": "Learn the day",
            "required_context_keys": ["day"],
            "transitions": [
                {
                    "target_state": "confirm",
                    "description": "Both answers are known",
                    "conditions": [{"requires_context_keys": ["day"]}],
                }
            ],
        },
        "confirm": {
            "purpose": "Is everything right?",
            "confirms": ["size", "day"],
            "transitions": [
                {"target_state": "done", "description": "Everything is right", "agrees": True}
            ],
        },
        "done": {"kind": "final", "reply": "Your {{ size }} box comes on {{ day }}. Goodbye!"},
    },
    "model": {"on_failure": "Sorry, something went wrong over here."},
}
TEXTS: dict[str, dict[str, str]] = {
    "de": {
        "/states/size/reply": "Hallo! Soll es klein oder groß sein?",
        "/states/size/transitions/0/description": "Die Größe ist bekannt",
        "/states/day/purpose": "Den Tag erfragen",
        "/states/day/transitions/0/description": "Beide Antworten sind bekannt",
        "/states/confirm/purpose": "Ist alles richtig?",
        "/states/confirm/transitions/0/description": "Alles ist richtig",
        "/states/done/reply": "Ihr Paket ({{ size }}) kommt am {{ day }}. Tschüs!",
        "/model/on_failure": "Bei uns ist leider etwas schiefgegangen.",
        "/context_schema/properties/size/title": "Größe",
        "/context_schema/properties/size/x-labels/small": "klein",
        "/context_schema/properties/size/x-labels/large": "groß",
        "/context_schema/properties/agreed/title": "Zustimmung",
        "/context_schema/properties/day/title": "Liefertag",
        "/context_schema/properties/day/x-ask": "Welcher Tag passt Ihnen?",
        "/context_schema/properties/day/x-valid/0/description": "Der Tag liegt nach Neujahr",
    },
    "tr": {
        "/states/size/reply": "Merhaba! Küçük mü olsun, büyük mü?",
        "/states/size/transitions/0/description": "Boy biliniyor",
        "/states/day/purpose": "Günü sor",
        "/states/day/transitions/0/description": "İki yanıt da biliniyor",
        "/states/confirm/purpose": "Hepsi doğru mu?",
        "/states/confirm/transitions/0/description": "Hepsi doğru",
        "/states/done/reply": "{{ size }} paketiniz {{ day }} günü geliyor. Hoşça kalın!",
        "/model/on_failure": "Üzgünüz, bizde bir sorun oldu.",
        "/context_schema/properties/size/title": "boy",
        "/context_schema/properties/size/x-labels/small": "küçük",
        "/context_schema/properties/size/x-labels/large": "büyük",
        "/context_schema/properties/agreed/title": "onay",
        "/context_schema/properties/day/title": "teslim günü",
        "/context_schema/properties/day/x-ask": "Hangi gün size uygun?",
        "/context_schema/properties/day/x-valid/0/description": "Gün yılbaşından sonra olmalı",
    },
    "fr": {
        "/states/size/reply": "Bonjour ! La voulez-vous petite ou grande ?",
        "/states/size/transitions/0/description": "La taille est connue",
        "/states/day/purpose": "Demander le jour",
        "/states/day/transitions/0/description": "Les deux réponses sont connues",
        "/states/confirm/purpose": "Tout est-il correct ?",
        "/states/confirm/transitions/0/description": "Tout est correct",
        "/states/done/reply": "Votre boîte ({{ size }}) arrive le {{ day }}. À bientôt !",
        "/model/on_failure": "Excusez-nous, un problème est survenu chez nous.",
        "/context_schema/properties/size/title": "taille",
        "/context_schema/properties/size/x-labels/small": "petite",
        "/context_schema/properties/size/x-labels/large": "grande",
        "/context_schema/properties/agreed/title": "accord",
        "/context_schema/properties/day/title": "jour de livraison",
        "/context_schema/properties/day/x-ask": "Quel jour vous convient ?",
        "/context_schema/properties/day/x-valid/0/description": "La livraison a lieu après le Nouvel An",
    },
    "es": {
        "/states/size/reply": "¡Hola! ¿La quiere pequeña o grande?",
        "/states/size/transitions/0/description": "Se conoce el tamaño",
        "/states/day/purpose": "Preguntar el día",
        "/states/day/transitions/0/description": "Se conocen las dos respuestas",
        "/states/confirm/purpose": "¿Está todo correcto?",
        "/states/confirm/transitions/0/description": "Todo está correcto",
        "/states/done/reply": "Su caja ({{ size }}) llega el {{ day }}. ¡Hasta pronto!",
        "/model/on_failure": "Lo sentimos, ha habido un problema por nuestra parte.",
        "/context_schema/properties/size/title": "tamaño",
        "/context_schema/properties/size/x-labels/small": "pequeña",
        "/context_schema/properties/size/x-labels/large": "grande",
        "/context_schema/properties/agreed/title": "conformidad",
        "/context_schema/properties/day/title": "día de entrega",
        "/context_schema/properties/day/x-ask": "¿Qué día le viene bien?",
        "/context_schema/properties/day/x-valid/0/description": "La entrega es después de Año Nuevo",
    },
}
ENGLISH = {"language": "de", "_quotes": {"language": "auf Deutsch"}}


def reply(target: str, update: Any = None, message: str = "", question: str = "") -> Any:
    """A reply of a model."""
    found = {"target_state": target, "context_update": update or {}}
    return {**found, "message": message, "question": question}


def shop(*replies: Any, **settings: Any) -> Machine:
    """The machine with a model that gives these replies."""
    document = {**SHOP, "texts": TEXTS}
    return Machine.from_dict(document, model=ScriptedLLM([*replies]), **settings)


def words_of(texts: Any) -> set[str]:
    """The words of texts, with three letters or more."""
    return {word.casefold() for text in texts for word in re.findall(r"[^\W\d_]{3,}", text)}


def english_words(tag: str) -> set[str]:
    """Every word of the machine's English texts that the other language does not have."""
    own = [*SHOP["states"]["size"]["reply"].split(), *language_of("en").sentences.values()]
    for state in SHOP["states"].values():
        own += [state.get("purpose", ""), re.sub(r"{{.*?}}", "", state.get("reply", ""))]
        own += [move["description"] for move in state.get("transitions", ())]
    for schema in SHOP["context_schema"]["properties"].values():
        own += [schema.get(key, "") for key in ("title", "description", "x-ask")]
        own += schema.get("enum", [])
    own += ["The day must come after New Year", SHOP["model"]["on_failure"], "January yes"]
    theirs = [*language_of(tag).sentences.values(), *TEXTS[tag].values()]
    return words_of(own) - words_of(theirs)


ROUND: list[tuple[str, list[Any]]] = [
    ("1", [reply("clarify")]),
    ("2", [reply("digress")]),
    ("3", [reply("repeat")]),
    ("4", [reply("skip")]),
    ("5", [reply("back")]),
    ("6", [reply("cannot_handle")]),
    ("7", [reply("cannot_handle")]),
    ("8", [reply("day", {"size": "small"})]),
    ("9", [reply("correct", {"size": "large"})]),
    ("10", [reply("day", {"day": "2020-01-01"})] * 2),
    ("11", [reply("day", {"size": "huge"})] * 2),
    ("12", ["no reply at all"] * 2),
    ("13", [reply("cancel")]),
    ("x 2031-03-04", [reply("confirm", {"day": "2031-03-04"})]),
    ("15", [reply("confirm")]),
    ("16", [reply("confirm", {"size": "small"})]),
    ("17", ["still no reply"] * 2),
    ("18", [reply("restart")]),
    ("19", [reply("day", {"size": "small"})]),
    ("20", [reply("back")]),
]
"""Messages and the replies of the model: all that the machine says by itself comes up."""


@pytest.mark.parametrize("tag", [*TEXTS])
def test_the_machine_says_no_english_word_in_another_language(tag: str) -> None:
    said: list[str] = []
    replies = [one for _, found in ROUND for one in found]
    with shop(*replies * 10, store=MemoryStore()) as machine:
        chat = machine.start(language=tag)
        said.append(chat.greeting)
        for message, _ in ROUND * 10:
            turn = chat.send(message)
            assert not turn.ended, turn.text
            said += [turn.text, *(choice.label for choice in turn.choices)]
    assert len(said) > 200
    foreign = words_of(said) & english_words(tag)
    assert foreign == set(), [text for text in said if words_of([text]) & foreign]


@pytest.mark.parametrize("tag", [*TEXTS])
def test_the_end_and_the_silence_are_said_in_the_language(tag: str) -> None:
    clock = [1_000_000.0]
    ends = reply("done", {"_quotes": {"_yes": language_of(tag).yes[0]}})
    replies = [reply("day", {"size": "small"}), reply("confirm", {"day": "2031-03-04"}), ends]
    with shop(*replies, clock=lambda: clock[0]) as machine:
        chat = machine.start(language=tag)
        clock[0] += 400
        [reminded] = machine.run_due()
        said = [reminded.text]
        for message in ("1", "x 2031-03-04", language_of(tag).yes[0]):
            said.append(chat.send(message).text)
    assert words_of(said) & english_words(tag) == set()
    assert said[-1].endswith(("Tschüs!", "Hoşça kalın!", "À bientôt !", "¡Hasta pronto!"))


def test_a_colon_stands_as_the_language_writes_it() -> None:
    late = reply("day", {"day": "2020-01-01"})
    replies = [reply("day", {"size": "small"}), late, late, reply("confirm", {"day": "2031-03-04"})]
    with shop(*replies) as machine:
        chat = machine.start(language="fr")
        chat.send("petite")
        refused, read_back = chat.send("x 2020-01-01").text, chat.send("x 2031-03-04").text
    assert refused.startswith("Cela ne convient pas (jour de livraison)\u00a0: La livraison")
    assert read_back.startswith("Taille\u00a0: petite\nJour de livraison\u00a0: 4 mars 2031")


def test_the_user_changes_the_language_and_the_event_is_on_record() -> None:
    with shop(reply("size", ENGLISH, "Gern.")) as machine:
        chat = machine.start()
        assert chat.greeting == SHOP["states"]["size"]["reply"]
        turn = chat.send("auf Deutsch bitte")
        assert turn.text == "Gern.\n\nHallo! Soll es klein oder groß sein?"
        assert [choice.label for choice in turn.choices] == ["klein", "groß"]
        changes = [one.values for one in turn.events if type(one).__name__ == "ContextSet"]
        assert changes == [{"language": "de"}]
        assert machine.resume(chat.id).choices == turn.choices


def changed_to(tag: str, words: str) -> dict[str, Any]:
    """An update that changes the language, with the user's words as proof."""
    return {"language": tag, "_quotes": {"language": words}}


def test_a_conversation_changes_its_language_twice() -> None:
    clock = [1_900_000_000.0]
    german, turkish = changed_to("de", "auf Deutsch"), changed_to("tr", "Türkçe")
    replies = [
        reply("day", {"size": "large", **german}),
        reply("confirm", {"day": "2031-03-04"}),
        reply("confirm", turkish),
        "no reply at all",
        "no reply at all",
        reply("cannot_handle"),
        reply("done", {"_quotes": {"_yes": "evet"}}),
    ]
    with shop(*replies, clock=lambda: clock[0]) as machine:
        chat = machine.start()
        assert chat.greeting == SHOP["states"]["size"]["reply"]
        turn = chat.send("groß, und auf Deutsch bitte")
        assert (turn.text, turn.choices) == ("Welcher Tag passt Ihnen?", ())
        clock[0] += 400
        [reminded] = machine.run_due()
        assert reminded.text == "Sind Sie noch da?\n\nWelcher Tag passt Ihnen?"
        turn = chat.send("am 4. März 2031")
        assert turn.text == "Größe: groß\nLiefertag: 4. März 2031\n\nIst alles richtig?"
        assert [choice.label for choice in turn.choices] == ["ja", "nein"]
        turn = chat.send("Türkçe lütfen")
        assert turn.text == "Boy: büyük\nTeslim günü: 4 Mart 2031\n\nHepsi doğru mu?"
        assert [choice.label for choice in turn.choices] == ["evet", "hayır"]
        assert chat.send("hm").text.startswith("Üzgünüz, bizde bir sorun oldu.")
        clock[0] += 400
        [reminded] = machine.run_due()
        assert reminded.text.startswith("Hâlâ orada mısınız?")
        assert reminded.text.endswith("Hepsi doğru mu?")
        turn = chat.send("ne yapabilirim?")
        foreign = english_words("tr") | words_of(TEXTS["de"].values())
        assert words_of([turn.text]) & foreign == set()
        turn = chat.send("evet")
        assert turn.text == "büyük paketiniz 4 Mart 2031 günü geliyor. Hoşça kalın!"
        assert chat.context["language"] == "tr"


@pytest.mark.parametrize(
    "update",
    [
        {"size": "large"},
        {"size": "large", "language": "de"},
        {"size": "large", **changed_to("de", "auf Deutsch")},
    ],
)
def test_one_foreign_word_changes_no_language(update: dict[str, Any]) -> None:
    with shop(reply("day", update), reply("day", {"size": "large"})) as machine:
        chat = machine.start()
        assert chat.send("groß, please").text == "Which day suits you?"
        assert chat.context == {"size": "large"}


def test_a_language_that_nobody_asked_for_is_refused() -> None:
    made_up = reply("size", {"language": "tr", "_quotes": {"language": "small"}})
    with shop(made_up, reply("size")) as machine:
        chat = machine.start(language="de")
        assert chat.send("small").text == "Hallo! Soll es klein oder groß sein?"
        assert chat.context == {"language": "de"}


def test_a_restart_keeps_the_language() -> None:
    with shop(reply("size", ENGLISH), reply("restart")) as machine:
        chat = machine.start()
        chat.send("auf Deutsch")
        assert chat.send("noch einmal").text.endswith("Hallo! Soll es klein oder groß sein?")


def test_the_prompt_stays_in_the_language_of_the_definition() -> None:
    model = ScriptedLLM([reply("size")] * 2)
    with Machine.from_dict({**SHOP, "texts": TEXTS}, model=model) as machine:
        machine.start().send("hm")
        machine.start(language="de").send("hm")
    english, german = model.requests
    assert german.messages[0] == english.messages[0]
    assert german.schema == english.schema
    assert "<language>English</language>" in english.messages[1].content
    assert "<language>German</language>" in german.messages[1].content
    assert "Die Größe ist bekannt" not in german.messages[1].content
    assert "The size is known" in german.messages[1].content


def test_a_definition_with_one_language_offers_none() -> None:
    one = {key: value for key, value in SHOP.items() if key != "languages"}
    model = ScriptedLLM([reply("size")])
    with Machine.from_dict(one, model=model) as machine:
        chat = machine.start(language="de")
        chat.send("hm")
        assert chat.context == {}
    assert "language" not in model.requests[0].messages[1].content
    assert '"language"' not in str(model.requests[0].schema)


WITHOUT_LANGUAGE = """
import sys
from llm_fsm import Machine
from llm_fsm.testing import ScriptedLLM, reply

states = {
    "price": {"reply": "Which price?", "transitions": [{"target_state": "confirm"}]},
    "confirm": {
        "reply": "{{ '%.2f' | format(price) }} for {{ price * 2 }}?",
        "confirms": ["price"],
        "transitions": [{"target_state": "done", "agrees": True}],
    },
    "done": {"kind": "final", "reply": "Goodbye!"},
}
schema = {"properties": {"price": {"type": "number"}}}
document = {"name": "shop", "initial_state": "price", "context_schema": schema, "states": states}
yes = reply("done", "", _quotes={"_yes": "yes"})
model = ScriptedLLM([reply("confirm", "", price=2.5), yes])
with Machine.from_dict(document, model=model) as machine:
    chat = machine.start()
    print(chat.send("2.50").text, chat.send("yes").text)
print([name for name in sys.modules if name.startswith("babel")])
"""


def test_a_definition_without_a_language_loads_no_locales() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LANGUAGE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2.50 for 5.0? Goodbye!\n[]\n"


def test_an_unknown_language_falls_back_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    advise.cache_clear()
    with caplog.at_level(logging.WARNING, LOGGER), shop() as machine:
        for _ in range(3):
            chat = machine.start(language="ja")
        assert chat.greeting == SHOP["states"]["size"]["reply"]
    told = [one.getMessage() for one in caplog.records if one.name == LOGGER]
    assert told == ["shop: there are no texts in 'ja'; 'en' is used"]


@pytest.mark.parametrize(
    ("wanted", "tag"),
    [
        ("de", "de"),
        ("DE-at", "de"),
        ("tr_TR", "tr"),
        ("fr;q=0.9, tr;q=0.8, *;q=0.1", "tr"),
        ("en;q=0.2,de;q=0.7", "de"),
        ("ja", ""),
        (";;q=,,", ""),
    ],
)
def test_a_wish_finds_the_language_that_fits_best(wanted: str, tag: str) -> None:
    assert spoken(wanted, ["en", "de", "tr"]) == tag


def test_called_definitions_speak_the_language_of_the_conversation() -> None:
    called = {
        "name": "address",
        "languages": ["de"],
        "initial_state": "street",
        "states": {
            "street": {
                "reply": "Which street?",
                "required_context_keys": ["street"],
                "transitions": [{"target_state": "found"}],
            },
            "found": {"kind": "final"},
        },
        "texts": {"de": {"/states/street/reply": "Welche Straße?"}},
    }
    caller = {
        "name": "caller",
        "languages": ["de"],
        "initial_state": "where",
        "states": {
            "where": {"kind": "subflow", "flow": "a", "transitions": [{"target_state": "bye"}]},
            "bye": {"kind": "final", "reply": "Goodbye!"},
        },
        "texts": {"de": {"/states/bye/reply": "Tschüs!"}},
    }
    model = ScriptedLLM([reply("street", ENGLISH), reply("found", {"street": "Am Weg"})])
    with Machine.from_dict(caller, model=model, flows={"a": called}) as machine:
        chat = machine.start()
        assert chat.greeting == "Which street?"
        assert chat.send("auf Deutsch").text == "Welche Straße?"
        assert chat.send("Am Weg").text == "Tschüs!"
