from __future__ import annotations

import json

import pytest

from llm_fsm.documents.check import CheckOptions, check_text

FILES = {
    '{"initial_node": "greet", "nodes": {"greet": {"task_messages": []}}}': ("Pipecat", "pipecat"),
    '{"displayName": "Pizza", "transitionRoutes": [], "nluSettings": {}}': (
        "CX flow",
        "dialogflow",
    ),
    '{"displayName": "Ask size", "form": {"parameters": []}}': ("CX page", "dialogflow"),
    "version: '3.1'\nintents:\n- greet\nresponses: {}\n": ("Rasa", "rasa"),
    "stories:\n- story: happy path\n  steps: []\n": ("Rasa", "rasa"),
    "# comment\nnlu:\n- intent: greet\n": ("Rasa", "rasa"),
    '{"Comment": "x", "StartAt": "A", "States": {"A": {"Type": "Wait"}}}': ("Amazon", "new"),
    '{"name": "w", "nodes": [], "connections": {}, "active": false}': ("n8n", "new"),
    '{"nodes": [{"id": "1"}], "edges": [], "viewport": {}}': ("Flowise", "new"),
    "app:\n  mode: advanced-chat\nkind: app\nworkflow:\n  graph: {}\n": ("Dify", "new"),
    '{"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}': ("LangGraph", "new"),
    '{"name": "s", "intents": [], "entities": [], "dialog_nodes": []}': ("Watson", "new"),
    '{"description": "", "language": "en", "defaultTimezone": "Europe/Madrid"}': ("ES", "new"),
    '{"interactionModel": {"languageModel": {"invocationName": "shop"}}}': ("Alexa", "new"),
    '{"metadata": {"importType": "LEX"}, "resource": {"name": "Bot"}}': ("Lex", "new"),
    '{"version": "0.0.1", "catchAll": {}, "startNode": "entry", "nodes": []}': ("Botpress", "new"),
    '{"version": "6", "id": "t", "name": "t", "events": [], "groups": [], "edges": []}': (
        "Typebot",
        "new",
    ),
    '{"version": {"name": "v"}, "diagrams": {}, "project": {}}': ("Voiceflow", "new"),
    '{"openapi": "3.1.0", "info": {"title": "t"}, "paths": {}}': ("OpenAPI", "new"),
    '[{"id": "1", "type": "inject", "wires": [["2"]]}]': ("Node-RED", "new"),
    '{"id": "m", "initial": "a", "states": {"a": {"on": {"X": "a"}}}}': ("XState", "convert"),
}


@pytest.mark.parametrize(("text", "words"), FILES.items())
def test_a_file_of_another_tool_is_named_and_nothing_is_guessed(
    text: str, words: tuple[str, str]
) -> None:
    tool, way = words
    document, [found] = check_text(text, CheckOptions(file="flow.json"))
    assert document is None
    assert found.name == "not-a-definition"
    assert tool in found.message
    assert way in (found.hint or "")
    assert "did you mean" not in (found.hint or "")


@pytest.mark.parametrize("text", ["name: order\ninitial_state: ask\n", "---\nname: order\n"])
def test_yaml_is_called_yaml(text: str) -> None:
    _, [found] = check_text(text, CheckOptions())
    assert "YAML" in found.message
    assert "JSON" in (found.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        '<scxml xmlns="http://www.w3.org/2005/07/scxml" initial="a"><state id="a"/></scxml>',
        '<?xml version="1.0"?>\n<vxml version="2.1"/>',
        "\n  <bpmn:definitions/>",
        "<!DOCTYPE html>\n<html></html>",
        "<!-- ours --><flow/>",
    ],
)
def test_xml_is_called_xml(text: str) -> None:
    _, [found] = check_text(text, CheckOptions())
    assert "XML" in found.message
    assert "JSON" in (found.hint or "")
    assert "quotes" not in (found.hint or "")


@pytest.mark.parametrize(
    "keys",
    [("name", "initial", "states"), ("name", "start", "states"), ("name", "states", "flows")],
)
def test_a_misspelt_definition_of_ours_keeps_its_hints(keys: tuple[str, ...]) -> None:
    written = {key: {"a": {"purpose": "Ask."}} if key == "states" else "a" for key in keys}
    _, findings = check_text(json.dumps(written), CheckOptions())
    assert "not-a-definition" not in {found.name for found in findings}
