"""Answers in German, Turkish, French and Spanish: yes and no, numbers, days and times of day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, TypeVar

import pytest

from llm_fsm import Machine
from llm_fsm.languages.reading import dates, numbers, pieces, times
from llm_fsm.turn.agreement import is_no, is_yes

TODAY = date(2026, 11, 29)
"""A Sunday."""
Value = TypeVar("Value")


DAYS: dict[str, dict[str, str]] = {
    "de": {
        "morgen um drei": "2026-11-30",
        "3. Juni": "2027-06-03",
        "am 3. Juni 2027": "2027-06-03",
        "dritter Juni": "2027-06-03",
        "den dritten Juni": "2027-06-03",
        "3.6.2027": "2027-06-03",
        "Mittwoch": "2026-12-02",
        "nächsten Mittwoch": "2026-12-09",
        "in drei Tagen": "2026-12-02",
        "in zwei Wochen": "2026-12-13",
        "Heiligabend": "2026-12-24",
        "1. Mai": "2027-05-01",
        "Sonnabend": "2026-12-05",
        "Fünfzehnter März": "2027-03-15",
        "am fünfzehnten": "2026-12-15",
        "Freitagabend um acht": "2026-12-04",
        "kommenden Freitag": "2026-12-04",
        "zum 1. März": "2027-03-01",
        "24.12.": "2026-12-24",
        "in einer Woche": "2026-12-06",
        "in drei Wochen": "2026-12-20",
        "Weihnachten": "2026-12-25",
    },
    "tr": {
        "yarın saat üçte": "2026-11-30",
        "3 Haziran": "2027-06-03",
        "3 Haziran'da": "2027-06-03",
        "üç Haziran": "2027-06-03",
        "3 Haziran 2027": "2027-06-03",
        "Haziran'ın üçü": "2027-06-03",
        "ayın üçü": "2026-12-03",
        "03.06.2027": "2027-06-03",
        "çarşamba": "2026-12-02",
        "çarşamba günü": "2026-12-02",
        "gelecek çarşamba": "2026-12-09",
        "haftaya çarşamba": "2026-12-09",
        "öbür gün": "2026-12-01",
        "ertesi gün": "2026-11-30",
        "iki hafta sonra": "2026-12-13",
        "üç gün sonra": "2026-12-02",
        "bugün": "2026-11-29",
        "Yılbaşı": "2027-01-01",
        "29 Ekim": "2027-10-29",
        "4 Aralık Cuma": "2026-12-04",
        "25 Aralık": "2026-12-25",
        "yirmi beş Aralık": "2026-12-25",
        "25 Aralık'ta": "2026-12-25",
        "yarın akşam": "2026-11-30",
        "cumartesi günü": "2026-12-05",
        "cumaya": "2026-12-04",
        "cuma akşamı": "2026-12-04",
        "bu cuma": "2026-12-04",
        "ocak ayının beşi": "2027-01-05",
        "beş gün sonra": "2026-12-04",
        "ayın on beşi": "2026-12-15",
        "salıya": "2026-12-01",
    },
    "fr": {
        "demain à 15 h": "2026-11-30",
        "le 3 juin": "2027-06-03",
        "le trois juin": "2027-06-03",
        "le 3 juin 2027": "2027-06-03",
        "le premier mai": "2027-05-01",
        "le 1er mai": "2027-05-01",
        "mercredi": "2026-12-02",
        "mercredi prochain": "2026-12-09",
        "après-demain": "2026-12-01",
        "dans deux semaines": "2026-12-13",
        "dans trois jours": "2026-12-02",
        "03/06/2027": "2027-06-03",
        "Noël": "2026-12-25",
        "le quinze": "2026-12-15",
        "14 juillet": "2027-07-14",
        "vendredi 4 décembre": "2026-12-04",
        "mardi soir": "2026-12-01",
        "le 25 décembre": "2026-12-25",
        "1er janvier 2027": "2027-01-01",
        "ce soir": "2026-11-29",
        "dans une semaine": "2026-12-06",
    },
    "es": {
        "el tres de junio": "2027-06-03",
        "el 3 de junio": "2027-06-03",
        "3 de junio de 2027": "2027-06-03",
        "3 de junio del 2027": "2027-06-03",
        "el primero de mayo": "2027-05-01",
        "mañana a las tres": "2026-11-30",
        "pasado mañana": "2026-12-01",
        "el miércoles": "2026-12-02",
        "el próximo miércoles": "2026-12-09",
        "dentro de dos semanas": "2026-12-13",
        "en tres días": "2026-12-02",
        "Navidad": "2026-12-25",
        "Nochebuena": "2026-12-24",
        "03/06/2027": "2027-06-03",
        "el quince": "2026-12-15",
        "viernes 4 de diciembre": "2026-12-04",
        "hoy": "2026-11-29",
        "el 25 de diciembre": "2026-12-25",
        "el veinticinco de diciembre": "2026-12-25",
        "este viernes": "2026-12-04",
        "el viernes que viene": "2026-12-04",
        "el uno de enero": "2027-01-01",
        "1 de enero": "2027-01-01",
        "esta noche": "2026-11-29",
    },
}
TIMES: dict[str, dict[str, str]] = {
    "de": {
        "morgen um drei": "15:00",
        "am Mittwoch um halb vier": "15:30",
        "Viertel nach drei": "15:15",
        "drei viertel vier": "15:45",
        "dreiviertel vier": "15:45",
        "15 Uhr": "15:00",
        "15.30 Uhr": "15:30",
        "um 15:30": "15:30",
        "um 8 Uhr abends": "20:00",
        "acht Uhr früh": "08:00",
        "zehn nach drei": "15:10",
        "fünf vor zwölf": "11:55",
        "fünf nach halb vier": "15:35",
        "heute Mittag": "12:00",
        "gegen neun Uhr morgens": "09:00",
        "Freitagabend um acht": "20:00",
        "siebzehn Uhr dreißig": "17:30",
        "halb zehn morgens": "09:30",
        "null Uhr dreißig": "00:30",
    },
    "tr": {
        "yarın saat üçte": "15:00",
        "saat 15:30'da": "15:30",
        "saat 15.30'da": "15:30",
        "saat 15'te": "15:00",
        "üç buçukta": "15:30",
        "üç buçuk": "15:30",
        "üçü çeyrek geçe": "15:15",
        "dörde çeyrek kala": "15:45",
        "dörde on var": "15:50",
        "üçü on geçiyor": "15:10",
        "öğlen": "12:00",
        "gece yarısı": "00:00",
        "akşam sekizde": "20:00",
        "sabah sekizde": "08:00",
        "öğleden sonra üçte": "15:00",
        "cuma akşamı yedide": "19:00",
        "saat dokuzda": "09:00",
        "sabah dokuzda": "09:00",
        "akşam saat sekiz buçukta": "20:30",
        "dokuza beş var": "08:55",
        "dokuzu beş geçe": "09:05",
        "on bir buçuk": "11:30",
        "on ikide": "12:00",
        "yirmi otuz": "20:30",
        "saat yirmide": "20:00",
        "20:15'te": "20:15",
        "on bire çeyrek var": "10:45",
        "on ikiyi on geçe": "12:10",
        "öğleden önce onda": "10:00",
    },
    "fr": {
        "demain à 15 h": "15:00",
        "demain à 15h30": "15:30",
        "15 h 30": "15:30",
        "à quinze heures trente": "15:30",
        "à trois heures et quart": "15:15",
        "à quatre heures moins dix": "15:50",
        "midi et quart": "12:15",
        "à midi": "12:00",
        "minuit": "00:00",
        "à 8 heures du soir": "20:00",
        "8 h du matin": "08:00",
        "à trois heures de l'après-midi": "15:00",
        "quinze heures": "15:00",
        "demain matin à 9 h": "09:00",
        "vingt heures": "20:00",
        "neuf heures du matin": "09:00",
        "demain soir à huit heures": "20:00",
        "huit heures et demie du soir": "20:30",
        "dix heures moins le quart": "09:45",
        "20h": "20:00",
        "20h15": "20:15",
    },
    "es": {
        "mañana a las tres": "15:00",
        "a las tres y media": "15:30",
        "a las tres y cuarto": "15:15",
        "a las cuatro menos cuarto": "15:45",
        "cuatro menos diez": "15:50",
        "a las 15:30": "15:30",
        "a las 15 horas": "15:00",
        "a las 15 h": "15:00",
        "a la una": "13:00",
        "a la una y media de la tarde": "13:30",
        "a las ocho de la noche": "20:00",
        "a las ocho de la mañana": "08:00",
        "al mediodía": "12:00",
        "a medianoche": "00:00",
        "a las nueve de la mañana": "09:00",
        "a las nueve y veinte": "09:20",
        "a las diez menos veinte": "09:40",
        "las ocho y media de la tarde": "20:30",
        "a mediodía": "12:00",
        "a las 20:15": "20:15",
        "mañana por la mañana a las diez": "10:00",
        "el martes por la noche a las nueve": "21:00",
    },
}
NUMBERS: dict[str, dict[str, float]] = {
    "de": {
        "zweiundvierzig": 42,
        "hundertfünfzig": 150,
        "einhundertzwanzig": 120,
        "zweihundertdreißig": 230,
        "1.234,50": 1234.5,
        "zwei Komma fünf": 2.5,
        "zweieinhalb": 2.5,
        "minus drei": -3,
        "ein Dutzend": 12,
        "tausendzweihundert": 1200,
        "zweitausendfünfhundert": 2500,
        "vier Personen": 4,
        "1,5 Liter": 1.5,
        "10.000": 10000,
    },
    "tr": {
        "kırk iki": 42,
        "kırkiki": 42,
        "iki yüz otuz": 230,
        "bin iki yüz": 1200,
        "1.234,50": 1234.5,
        "iki buçuk": 2.5,
        "iki virgül beş": 2.5,
        "eksi üç": -3,
        "bir düzine": 12,
        "yirmi bir": 21,
        "yarım": 0.5,
        "dört kişi": 4,
        "bin beş yüz": 1500,
        "yüz yirmi": 120,
        "doksan dokuz": 99,
        "1,5": 1.5,
        "üç": 3,
    },
    "fr": {
        "quarante-deux": 42,
        "soixante-dix-huit": 78,
        "deux cent trente": 230,
        "mille deux cents": 1200,
        "1 234,50": 1234.5,
        "deux virgule cinq": 2.5,
        "deux et demi": 2.5,
        "moins trois": -3,
        "une douzaine": 12,
        "vingt et un": 21,
        "quatre-vingts": 80,
        "quatre vingt dix neuf": 99,
        "trois mille": 3000,
        "1,5": 1.5,
    },
    "es": {
        "cuarenta y dos": 42,
        "veintidós": 22,
        "doscientos treinta": 230,
        "mil doscientos": 1200,
        "1.234,50": 1234.5,
        "dos coma cinco": 2.5,
        "dos y medio": 2.5,
        "menos tres": -3,
        "una docena": 12,
        "mil": 1000,
        "dos mil quinientos": 2500,
        "ciento veinte": 120,
        "treinta y tres": 33,
    },
}
YES: dict[str, list[str]] = {
    "de": ["ja", "Ja, bitte.", "JA", "jawohl", "genau", "einverstanden", "Das stimmt."],
    "tr": ["evet", "Evet, lütfen.", "EVET", "tamam", "olur", "tabii ki", "doğru"],
    "fr": ["oui", "Oui, merci.", "OUI", "d'accord", "d’accord", "bien sûr", "c'est bon"],
    "es": ["sí", "si", "Sí, por favor.", "claro", "vale", "de acuerdo", "está bien"],
}
NO: dict[str, list[str]] = {
    "de": ["nein", "Nein, danke.", "NEIN", "nee", "nö"],
    "tr": ["hayır", "Hayır, teşekkürler.", "HAYIR", "hayir"],
    "fr": ["non", "Non, merci.", "NON"],
    "es": ["no", "No, gracias.", "NO"],
}
NEITHER: dict[str, list[str]] = {
    "de": ["Ja?", "ja, aber später", "nein oder ja", "Jana", "vielleicht"],
    "tr": ["Evet mi?", "evet ama sonra", "evet hayır", "Evrim", "belki"],
    "fr": ["Oui ?", "oui, mais plus tard", "oui non", "Ouissem", "peut-être"],
    "es": ["¿Sí?", "sí, pero luego", "sí no", "Simón", "quizás"],
}


def rows(table: Mapping[str, Mapping[str, Value]]) -> list[tuple[str, str, Value]]:
    """Language, text and value of a table, a row each."""
    found: list[tuple[str, str, Value]] = []
    for tag, said in table.items():
        found += [(tag, text, value) for text, value in said.items()]
    return found


def texts(table: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """Language and text of a table, a row each."""
    found: list[tuple[str, str]] = []
    for tag, said in table.items():
        found += [(tag, text) for text in said]
    return found


@pytest.mark.parametrize(("tag", "text", "day"), rows(DAYS))
def test_a_day_is_read(tag: str, text: str, day: str) -> None:
    assert day in {one.value for one in dates(pieces(text, tag), TODAY)}


@pytest.mark.parametrize(("tag", "text", "time"), rows(TIMES))
def test_a_time_of_day_is_read(tag: str, text: str, time: str) -> None:
    assert time in {one.value for one in times(pieces(text, tag))}


@pytest.mark.parametrize(("tag", "text", "number"), rows(NUMBERS))
def test_a_number_is_read(tag: str, text: str, number: float) -> None:
    assert number in [one.value for one in numbers(pieces(text, tag))]


@pytest.mark.parametrize(("tag", "text"), texts(YES))
def test_a_yes_is_a_yes(tag: str, text: str) -> None:
    assert (is_yes(tag, text), is_no(tag, text)) == (True, False)


@pytest.mark.parametrize(("tag", "text"), texts(NO))
def test_a_no_is_a_no(tag: str, text: str) -> None:
    assert (is_yes(tag, text), is_no(tag, text)) == (False, True)


@pytest.mark.parametrize(("tag", "text"), texts(NEITHER))
def test_other_words_are_neither(tag: str, text: str) -> None:
    assert (is_yes(tag, text), is_no(tag, text)) == (False, False)


@pytest.mark.parametrize(
    ("tag", "text", "time"),
    [
        ("de", "um acht Uhr abends", "08:00"),
        ("de", "fünf vor halb vier", "15:35"),
        ("de", "Freitagabend um acht", "08:00"),
        ("tr", "akşam sekizde", "08:00"),
        ("fr", "à huit heures du soir", "08:00"),
        ("es", "a las ocho de la noche", "08:00"),
    ],
)
def test_a_time_that_was_not_named_is_not_read(tag: str, text: str, time: str) -> None:
    assert time not in {one.value for one in times(pieces(text, tag))}


@pytest.mark.parametrize(
    ("tag", "text", "number"),
    [
        ("de", "zwei Komma fünf", 5),
        ("de", "zwei, fünf", 2.5),
        ("fr", "deux virgule cinq", 7),
        ("es", "dos coma cinco", 2),
        ("tr", "iki virgül beş", 25),
    ],
)
def test_a_fraction_in_words_is_one_number(tag: str, text: str, number: float) -> None:
    assert number not in [one.value for one in numbers(pieces(text, tag))]


def answered(tag: str, schema: dict[str, Any], message: str) -> Any:
    """The value that `offline` takes from a message, where it asks for this key."""
    known = [{"requires_context_keys": ["key"]}]
    document = {
        "name": "form",
        "language": tag,
        "initial_state": "ask",
        "context_schema": {"properties": {"key": schema}},
        "states": {
            "ask": {
                "reply": "?",
                "required_context_keys": ["key"],
                "transitions": [{"target_state": "end", "conditions": known}],
            },
            "end": {"kind": "final", "reply": "."},
        },
    }
    with Machine.from_dict(document, model="offline") as machine:
        chat = machine.start()
        chat.send(message)
        return chat.context.get("key")


OFFLINE: dict[str, dict[str, dict[str, Any]]] = {
    "boolean": {
        "de": {"ja, bitte": True, "genau": True, "nein danke": False, "vielleicht": None},
        "tr": {"evet": True, "tamam": True, "hayır, teşekkürler": False, "belki": None},
        "fr": {"oui": True, "d’accord": True, "non merci": False, "peut-être": None},
        "es": {"sí": True, "claro": True, "no, gracias": False, "quizás": None},
    },
    "number": {
        "de": {"zwei": 2, "1.234,50": 1234.5, "fünfundzwanzig Gäste": 25, "minus fünf": None},
        "tr": {"kırk": 40, "12,5": 12.5, "dört kişi": 4, "en az dört": None},
        "fr": {"quarante": 40, "1 234,50": 1234.5, "vingt-cinq personnes": 25, "environ 5": None},
        "es": {"dos": 2, "12,5": 12.5, "veinticinco personas": 25, "casi cinco": None},
    },
    "date": {
        "de": {"am dritten Juni 2027": "2027-06-03", "03.06.2027": "2027-06-03", "morgen": None},
        "tr": {"3 Haziran 2027": "2027-06-03", "03.06.2027": "2027-06-03", "yarın": None},
        "fr": {"le trois juin 2027": "2027-06-03", "1er juin 2027": "2027-06-01", "demain": None},
        "es": {"el tres de junio de 2027": "2027-06-03", "mañana": None},
    },
    "time": {
        "de": {"15:30": "15:30", "acht Uhr abends": "20:00", "um drei": None},
        "tr": {"saat 15'te": "15:00", "akşam sekizde": "20:00", "üçte": None},
        "fr": {"15h30": "15:30", "à huit heures du soir": "20:00", "à trois heures": None},
        "es": {"a las 15 h": "15:00", "a las ocho de la noche": "20:00", "a las tres": None},
    },
    "text": {
        "de": {"nein": None, "perfekt": "perfekt"},
        "tr": {"evet": None, "harika": "harika"},
        "fr": {"oui": None, "parfait": "parfait"},
        "es": {"sí": None, "perfecto": "perfecto"},
    },
}
"""Kind of a key to what `offline` takes; None: it is not certain, so it asks again."""


@pytest.mark.parametrize("kind", OFFLINE)
@pytest.mark.parametrize("tag", YES)
def test_offline_takes_what_is_certain(kind: str, tag: str) -> None:
    schema = {"type": kind}
    if kind in ("date", "time"):
        schema = {"type": "string", "format": kind}
    elif kind == "text":
        schema = {"type": "string"}
    said = OFFLINE[kind][tag]
    assert {message: answered(tag, schema, message) for message in said} == said
