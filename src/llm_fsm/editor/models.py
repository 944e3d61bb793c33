"""The contract of the studio: what its page sends and receives, from which OpenAPI and TypeScript
types are made.

Texts are the text of a file without a byte order mark. Offsets count UTF-16 code units, as
JavaScript does. Lines and columns count from 1, columns in characters. Pointers are JSON pointers
(RFC 6901) into the text.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from llm_fsm._json import JsonDict
from llm_fsm.documents.draw.extract import EVERYWHERE
from llm_fsm.documents.translations import Translation
from llm_fsm.errors import Level

FileKind = Literal["definition", "workflow", "tests", "layout", "other"]
"""A conversation's definition, a workflow of version 2.0, conversation tests, positions, or another
JSON file.
"""
ExportForm = Literal["python", "json", "mermaid", "svg", "png", "dot", "procedure"]
MAX_TEXT = 10_000_000
_MOST_WORDS = 300
"""Characters of a text in a picture. A text of megabytes would make the canvas slow."""


def _beginning(text: str) -> str:
    return text[:_MOST_WORDS]


PictureWords = Annotated[str, AfterValidator(_beginning)]
"""A text as pictures show it: its beginning."""


Translations = Annotated[
    dict[Annotated[str, Field(pattern=r"^/texts/[A-Za-z0-9-]+/[^/]+$")], Translation],
    Field(max_length=100_000),
]
"""Translations by their place, `/texts/TAG/POINTER`."""


def _waiting(source: str) -> str | None:
    return None if source == EVERYWHERE else source


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", from_attributes=True, use_attribute_docstrings=True)


class FileEntry(_Shape):
    """A file of the folder."""

    path: str
    """Path below the folder, with `/`."""
    kind: FileKind
    name: str = ""
    """The name that the file gives itself."""
    bytes: int
    modified: float
    """Seconds since 1970."""
    writable: bool = True


class ReleaseRow(_Shape):
    """A release: a share of new conversations that begins on another definition."""

    path: str
    name: str
    state: str
    """The share and whether a guard has stopped it in words; or what is wrong with the file."""
    arms: list[str] = []
    """The arms with their files and the beginnings of their identities."""


class Listing(_Shape):
    """All files that the studio can open."""

    folder: str
    files: list[FileEntry]
    releases: list[ReleaseRow] = []
    truncated: bool = False
    """True if the folder has more files than are listed."""


class StudioSettings(_Shape):
    """The abilities of this studio."""

    version: str
    folder: str
    file: str | None = None
    """The file to open first."""
    models: list[str]
    """Names of models for the playground; `scripted` takes replies with the request."""
    has_store: bool
    """True if stored conversations can be opened (`--db`)."""
    can_draw: bool
    """True if SVG and PNG can be exported by the server (Graphviz)."""
    has_git: bool
    """True if the folder is in a git repository."""


class FixOffer(_Shape):
    """A safe correction of findings."""

    changes: list[str]
    text: str


class FindingRow(_Shape):
    """One finding of the checker."""

    code: str
    name: str
    level: Level
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    offset: int | None = None
    """Offset of line and column in the text, in UTF-16 code units."""
    pointer: str = ""
    path: list[str] = []
    state: str | None = None
    """The state in which the pointer lies; None: none."""


class GraphNode(_Shape):
    """A state on the canvas."""

    id: str
    kind: str
    """converse, decide, task, subflow, wait, final, or `unknown`: a target that does not exist."""
    pointer: str
    initial: bool = False
    purpose: PictureWords = ""
    reply: PictureWords = ""
    keys: list[str] = []
    tools: list[str] = []
    key_results: list[PictureWords] = []
    flow: str | None = None
    """The file that a subflow calls, below the folder."""
    flow_exists: bool = False
    level: Level | None = None
    """The worst finding in the state."""


class GraphEdge(_Shape):
    """A way on. `source` is None for a global transition, which is shown in the node of global
    ones.
    """

    id: str
    """Its pointer, and for time-outs and the like the name of the option."""
    source: Annotated[str | None, BeforeValidator(_waiting)]
    target: str
    pointer: str
    label: PictureWords = ""
    """The description, or the name of a branch of a workflow."""
    words: PictureWords = ""
    """The conditions in words; empty if there are none."""
    how: Literal["picked", "auto", "timeout", "exhausted"] = "picked"
    returns: bool = False
    agrees: bool = False
    priority: float | None = None
    pattern: str | None = None
    """The repair pattern that this edge belongs to."""
    level: Level | None = None


class Graph(_Shape):
    """States and edges as they are drawn. A file with faults has those that can be read."""

    name: str = ""
    initial: str | None = None
    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []
    patterns: list[str] = []


class CanvasPoint(_Shape):
    """A place on the canvas, in whole pixels."""

    x: int
    y: int


class Layout(_Shape):
    """Positions of states. `sha256` is that of the layout file; None: there is none yet."""

    positions: dict[str, CanvasPoint] = {}
    folded: list[str] = []
    """Sub-flows that are folded."""
    sha256: str | None = None


class CheckedText(_Shape):
    """The findings and the graph of a text."""

    kind: FileKind
    is_json: bool
    """False: the text is no JSON; `findings` says where, and `graph` is empty."""
    findings: list[FindingRow]
    fix: FixOffer | None = None
    """A text with all safe corrections; None: there are none."""
    graph: Graph
    value: Any = None
    """The parsed document; null if the text is no JSON."""


class Opened(_Shape):
    """A file, opened."""

    path: str
    text: str
    sha256: str
    """SHA-256 of the bytes on disk, for saving."""
    writable: bool
    checked: CheckedText
    layout: Layout


class TextBody(_Shape):
    """A text that need not be saved. `path` names its place for files beside it."""

    path: str = "definition.json"
    text: str = Field(max_length=MAX_TEXT)


class EditedBody(TextBody):
    """A text and translations that need not be saved."""

    translations: Translations = {}


class TextRow(_Shape):
    """A text that users read. `translations` has one for each further language."""

    pointer: str
    text: str
    translations: dict[str, Translation] = {}


class Texts(_Shape):
    """All texts of a definition. `language` is its own, `languages` are the further ones."""

    language: str
    languages: list[str]
    rows: list[TextRow] = []


class RenamedName(_Shape):
    """A state or a context key that was renamed."""

    kind: Literal["state", "key"]
    name: str
    to: str


class SaveBody(_Shape):
    """A text to save."""

    path: str
    text: str = Field(max_length=MAX_TEXT)
    base: str | None = None
    """The SHA-256 of the version that it began from; None: the file must not exist yet."""
    overwrite: bool = False
    """True writes whatever is on disk, after the author saw both versions."""
    renamings: list[RenamedName] = Field(default=[], max_length=10_000)
    """The renamings since the last save, in order, which the tests of the definition follow."""
    translations: Translations = {}
    """The translations that are other ones since the last save, for the files of texts."""


class SavedFile(_Shape):
    """A saved file."""

    path: str
    sha256: str
    modified: float
    unchanged: bool = False
    """True if the file had these bytes already."""
    others: list[str] = []
    """The files that were saved with it: tests that followed a renaming, and texts."""


class FileConflict(_Shape):
    """The member `conflict` of the problem (409) of a file that changed on disk."""

    path: str
    text: str | None
    """The text on disk; None: the file is gone."""
    sha256: str | None


class LayoutBody(_Shape):
    """Positions to keep beside a file."""

    path: str
    positions: dict[str, CanvasPoint]
    folded: list[str] = []


class AddState(_Shape):
    """Add a state behind another one in the file, or at the end."""

    do: Literal["add_state"]
    id: str
    value: JsonDict = {}
    after: str | None = None


class RenameState(_Shape):
    """Rename a state and every reference to it."""

    do: Literal["rename_state"]
    id: str
    to: str


class DeleteState(_Shape):
    """Delete a state, and the transitions that lead to it unless `keep_transitions` is true."""

    do: Literal["delete_state"]
    id: str
    keep_transitions: bool = False


class DuplicateState(_Shape):
    """Copy a state behind itself, under a new id."""

    do: Literal["duplicate_state"]
    id: str
    to: str


class AddTransition(_Shape):
    """Add a transition to a state (`source` null: a global one). In a workflow, `label` names the
    branch.
    """

    do: Literal["add_transition"]
    source: str | None
    target: str
    value: JsonDict = {}
    label: str | None = None
    index: int | None = None


class DeleteTransition(_Shape):
    """Delete the transition at a pointer."""

    do: Literal["delete_transition"]
    pointer: str


class Repoint(_Shape):
    """Let the transition at a pointer lead to another state, or begin in another one."""

    do: Literal["repoint"]
    pointer: str
    target: str | None = None
    source: str | None = None


class InsertState(_Shape):
    """Put a new state into the transition at a pointer; the condition stays on the first half."""

    do: Literal["insert_state"]
    pointer: str
    id: str
    value: JsonDict = {}


class SetValue(_Shape):
    """Set the value at a pointer. A missing member is added; `/-` at the end appends to a list."""

    do: Literal["set"]
    pointer: str
    value: Any


class DeleteValue(_Shape):
    """Delete the member or element at a pointer."""

    do: Literal["delete"]
    pointer: str


class InsertValue(_Shape):
    """Put an element into a list, before the one at the pointer."""

    do: Literal["insert"]
    pointer: str
    value: Any


class MoveValue(_Shape):
    """Move an element of a list, or a member of an object, to another place in it."""

    do: Literal["move"]
    pointer: str
    to: int


class RenameKey(_Shape):
    """Rename the key of the member at a pointer, and nothing else."""

    do: Literal["rename_key"]
    pointer: str
    to: str


Gesture = (
    AddState
    | RenameState
    | DeleteState
    | DuplicateState
    | AddTransition
    | DeleteTransition
    | Repoint
    | InsertState
    | SetValue
    | DeleteValue
    | InsertValue
    | MoveValue
    | RenameKey
)


class GestureBody(EditedBody):
    """Gestures to make on a text, in order."""

    gestures: list[OneGesture] = Field(max_length=1000)


class OneGesture(_Shape):
    """One gesture; `do` says which."""

    gesture: Gesture = Field(discriminator="do")


class Patched(_Shape):
    """The text after all gestures."""

    text: str
    checked: CheckedText


class ConditionBody(_Shape):
    """A condition: JsonLogic as `logic`, or an expression (`age >= 18`) as `expression`; and an
    example context.
    """

    logic: Any = None
    expression: str | None = None
    context: JsonDict | None = None
    """None: the condition is only read."""


class ConditionAnswer(_Shape):
    """A condition, read and tried."""

    logic: Any
    expression: str | None
    """The condition as an expression; None: it has none."""
    faults: list[str]
    holds: bool | None = None
    error: str | None = None


class Template(_Shape):
    """A definition to start from."""

    name: str
    """None of the shipped ones: `starter`."""
    title: str
    description: str
    kind: FileKind = "definition"


class NewBody(_Shape):
    """A new definition from a template."""

    name: str
    """Small letters, digits, `-` and `_`; the file is NAME.json."""
    template: str = "starter"


class Created(_Shape):
    """The files that were made; the first one is the definition."""

    files: list[str]


class DiffBody(TextBody):
    """A text to compare: with `other` (a path), with the text `before`, or with a commit (neither)."""

    other: str | None = None
    before: str | None = None
    commit: str = Field(default="HEAD", pattern="^(HEAD|[0-9a-f]{40,64})$")


class GitCommit(_Shape):
    """A commit of a file. `time` is in seconds since the epoch."""

    id: str
    time: float
    words: str


class ChangeRow(_Shape):
    """A change by meaning, as `llm-fsm diff` tells it."""

    impact: Literal["safe", "needs-map", "strands"]
    message: str
    reason: str = ""
    pointer: str = ""


class DiffAnswer(_Shape):
    """A difference, by meaning and as text."""

    against: str
    """The other side of the comparison, such as `HEAD` or a path."""
    before: str | None
    """The other text; None: there is none, as for a file that was never committed."""
    unified: str
    """The difference as text, in unified form; empty if there is none."""
    changes: list[ChangeRow] | None
    """None: one of the texts is no definition that can run; `reason` says why."""
    reason: str | None = None


class ExportBody(TextBody):
    """A text to export."""

    form: ExportForm


class Exported(_Shape):
    """An exported file. `base64` is set for PNG, `text` for all others."""

    name: str
    media_type: str
    text: str | None = None
    base64: str | None = None


# -- the playground


class TalkBody(TextBody):
    """A conversation to start on a text."""

    model: str = "offline"
    """`offline`, `scripted`, or a model that the operator named."""
    replies: list[Any] | None = None
    """The replies of `scripted`: texts or objects."""
    context: JsonDict = {}
    state: str | None = None


def _known(cost: float | None) -> float | None:
    return cost or None


class TurnUsage(_Shape):
    """The tokens, time and cost of a turn. `cost` is in US dollars; None: nobody knows."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: Annotated[float | None, BeforeValidator(_known)] = None


class ChoiceRow(_Shape):
    """A choice: its label is shown, its value is sent as `choice`."""

    label: str
    value: Any


class PausedRow(_Shape):
    """The open question of a conversation that waits."""

    id: str
    kind: str
    """`wait`, `approval`, `break` or `unknown_outcome`."""
    what: str
    state: str
    call: JsonDict | None = None
    """The tool call in question: name and arguments."""
    answer_schema: JsonDict = {}
    """The JSON Schema of the answer, for a form."""


class TurnRow(_Shape):
    """One turn as it is shown in the transcript."""

    number: int
    """0 is the greeting."""
    by: Literal["start", "message", "answer", "update", "time", "run"]
    user: str | None
    """The user's message, or the answer as JSON."""
    text: str
    state: str
    previous_state: str | None
    moved: bool
    ended: bool
    choices: list[ChoiceRow] = []
    paused: PausedRow | None = None
    usage: TurnUsage
    edges: list[str] = []
    """Pointers of the transitions that were taken, for the canvas."""
    states: list[str] = []
    """States that were entered, in order."""


class TalkView(_Shape):
    """A conversation of the playground, or a stored one."""

    id: str
    path: str
    model: str
    source: Literal["playground", "stored"]
    read_only: bool
    definition: str
    state: str
    ended: bool
    context: JsonDict
    turns: list[TurnRow]
    choices: list[ChoiceRow] = []
    paused: PausedRow | None = None
    forked_from: str | None = None
    is_stale: bool = False
    """True if the stored conversation ran on another definition than its file has now."""
    not_forked: str | None = None
    """Why a stored conversation cannot be forked, such as a file that is missing; None: it can."""
    version: str | None = None
    """The definition that a stored conversation ran on, written as its file is."""
    problem: str | None = None
    """Why the last message led to no turn; None: it did."""


class MessageBody(_Shape):
    """A message of the user: words, or the value of a choice."""

    text: str | None = None
    choice: Any = None


class AnswerBody(_Shape):
    """The answer to a pause."""

    value: Any


class ForkBody(_Shape):
    """Step back: a new conversation that has the turns up to `turn`; then it goes on with
    `message`, if given.
    """

    turn: int
    message: str | None = None
    text: str | None = None
    """The definition to go on with; None: the same one."""


class TurnInspection(_Shape):
    """Everything about one turn."""

    turn: TurnRow
    why: JsonDict
    """`Explanation` as JSON: state, arrived, and `notes`, each with its `type`: MoveDecision with
    candidates and their checks with values, or an event of the turn.
    """
    calls: list[ModelCall]
    before: JsonDict
    after: JsonDict
    changed: list[ChangedKey]
    tools: list[ToolRun]
    events: list[JsonDict]


class ModelCall(_Shape):
    """One call of the model, as it was sent. Stored conversations have no prompt."""

    messages: list[JsonDict] | None
    reply: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    error: str | None = None


class ChangedKey(_Shape):
    """A key of the context that a turn changed. `quote`: the user's words that it came from."""

    key: str
    before: Any = None
    after: Any = None
    source: str = ""
    quote: str | None = None


class ToolRun(_Shape):
    """A tool that a turn called."""

    name: str
    arguments: Any = None
    result: Any = None
    error: str | None = None


class ReplayBody(TextBody):
    """The edited text on which the whole conversation is played."""

    model: str | None = None
    """The model that is asked anew; None: the replies are those on record."""


class ReplayAnswer(_Shape):
    """How the conversation goes on the edited text."""

    same: bool
    first: FirstDifference | None = None
    reason: str | None = None
    reworded: list[str] = []
    """The words that are other ones now. Replies on record do not show what they change."""


class FirstDifference(_Shape):
    """The first difference of a replay."""

    turn: int
    what: str
    was: Any = None
    now: Any = None


class SaveTestBody(_Shape):
    """A conversation to save as a test beside its definition."""

    name: str
    path: str | None = None
    """The file of tests; None: `NAME.test.json` of the definition. A file that exists gets one more
    case.
    """


class SavedTest(_Shape):
    """A saved test."""

    path: str
    name: str
    passed: bool | None
    """Whether it passes now; None: the definition is not saved yet as it was talked to."""
    message: str = ""


class OverlayBody(TextBody):
    """A definition whose figures are wanted."""

    limit: int = Field(default=500, ge=1, le=5000)
    """The most conversations that are counted, the newest first."""


class RunTestsBody(_Shape):
    """Tests to run. `text`: an unsaved definition to run them on."""

    path: str
    """The definition, or a file of tests."""
    text: str | None = None


class RanTest(_Shape):
    """A test that ran."""

    file: str
    name: str
    passed: bool
    skipped: str | None = None
    failures: list[str] = []
    line: int | None = None
    states: list[str] = []


class RanTests(_Shape):
    """Results of tests, and what they cover."""

    results: list[RanTest]
    passed: int
    failed: int
    covered: list[str]
    """Pointers of states and transitions that the tests touched."""
    missed: list[str]
    share: float
    """Per cent of states and transitions that the tests touched."""
    reason: str | None = None


class StoredRow(_Shape):
    """A stored conversation."""

    id: str
    definition: str
    state: str
    turns: int
    ended: bool
    outcome: str | None = None
    """The outcome, such as `final`, `stuck`, or the word of its final state; None: it goes on."""
    created: float
    updated: float
    paused: str | None = None


class StoredPage(_Shape):
    """Stored conversations, newest first."""

    conversations: list[StoredRow]
    next: str | None = None


class FlowFigures(_Shape):
    """Figures of one state or transition over stored conversations."""

    pointer: str
    visits: int = 0
    """Times that it was entered or taken."""
    drop_outs: int = 0
    """Conversations that are not over and rest here."""
    misses: int = 0
    """Turns here that neither moved nor learned anything."""
    cost: float | None = None
    tokens: int = 0
    seconds: float = 0.0


class Overlays(_Shape):
    """Figures for the canvas."""

    conversations: int
    truncated: bool = False
    """True if only the newest conversations were counted."""
    flows: list[FlowFigures]


class Streamed(_Shape):
    """One event of a stream (`text/event-stream`): `event` names the member that is set."""

    delta: str | None = None
    """Words as they arrive."""
    replaced: str | None = None
    """The whole text so far, which takes the place of the words shown."""
    state: str | None = None
    """The state that was entered."""
    talk: TalkView | None = None
    """The last event: the conversation after the turn."""
    problem: JsonDict | None = None
    """The last event if the turn failed: a problem document."""
