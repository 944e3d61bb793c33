// Made by web/scripts/api_types.py from the OpenAPI document of the studio. Do not edit.

export interface AddState {
  "do": "add_state";
  "id": string;
  "value"?: Record<string, unknown>;
  "after"?: string | null;
}

export interface AddTransition {
  "do": "add_transition";
  "source": string | null;
  "target": string;
  "value"?: Record<string, unknown>;
  "label"?: string | null;
  "index"?: number | null;
}

export interface AgUiEvent {
  "type": EventType;
}

export interface AnswerBody {
  "value": unknown;
}

export interface AssistantView {
  "role": "assistant";
  "content": string | null;
  "refusal": string | null;
  "tool_calls": Array<ToolCallView> | null;
}

export interface AttemptData {
  "state": string;
  "attempt": number;
  "failures": Array<Record<string, string>> | null;
}

export interface CanvasPoint {
  "x": number;
  "y": number;
}

export interface ChangeRow {
  "impact": "safe" | "needs-map" | "strands";
  "message": string;
  "reason": string;
  "pointer": string;
}

export interface ChangedKey {
  "key": string;
  "before": unknown;
  "after": unknown;
  "source": string;
  "quote": string | null;
}

export interface ChatCompletion {
  "id": string;
  "object": "chat.completion";
  "created": number;
  "model": string;
  "choices": Array<CompletionChoice>;
  "usage": TokenUsage;
  "conversation_id": string | null;
  "llm_fsm": Record<string, JsonValue> | null;
}

export interface ChatCompletionChunk {
  "id": string;
  "object": "chat.completion.chunk";
  "created": number;
  "model": string;
  "choices": Array<ChunkChoice>;
  "usage": TokenUsage | null;
  "conversation_id": string | null;
  "llm_fsm": Record<string, JsonValue> | null;
}

export interface CheckData {
  "name": string;
  "passed": boolean;
  "reason": string;
}

export interface CheckedText {
  "kind": "definition" | "workflow" | "tests" | "layout" | "other";
  "is_json": boolean;
  "findings": Array<FindingRow>;
  "fix": FixOffer | null;
  "graph": Graph;
  "value": unknown;
}

export interface ChoiceRow {
  "label": string;
  "value": unknown;
}

export interface ChoiceView {
  "label": string;
  "value": JsonValue;
  "question": string;
}

export interface ChunkChoice {
  "index": number;
  "delta": ChunkDelta;
  "finish_reason": "stop" | "tool_calls" | null;
}

export interface ChunkDelta {
  "role": "assistant" | null;
  "content": string | null;
  "tool_calls": Array<ToolCallView> | null;
}

export interface CompletionChoice {
  "index": number;
  "message": AssistantView;
  "finish_reason": "stop" | "tool_calls";
}

export interface ConditionAnswer {
  "logic": unknown;
  "expression": string | null;
  "words": string;
  "faults": Array<string>;
  "reads": Array<string>;
  "holds": boolean | null;
  "value": unknown;
  "error": string | null;
  "missing": Array<string>;
  "parts": Array<ConditionPart>;
}

export interface ConditionBody {
  "logic"?: unknown;
  "expression"?: string | null;
  "keys"?: Array<string>;
  "context"?: Record<string, unknown> | null;
}

export interface ConditionPart {
  "pointer": string;
  "words": string;
  "value": unknown;
  "error": string | null;
}

export interface ContextData {
  "values": Record<string, JsonValue>;
  "removed": Array<string>;
}

export type ConversationEvent = Record<string, unknown>;

export interface ConversationView {
  "id": string;
  "definition": string;
  "state": string;
  "ended": boolean;
  "context": Record<string, JsonValue>;
  "paused": PausedView | null;
  "due": number | null;
  "choices": Array<ChoiceView>;
  "metadata": Record<string, string>;
  "generation": number;
}

export interface Created {
  "files": Array<string>;
}

export interface DeleteState {
  "do": "delete_state";
  "id": string;
  "keep_transitions"?: boolean;
}

export interface DeleteTransition {
  "do": "delete_transition";
  "pointer": string;
}

export interface DeleteValue {
  "do": "delete";
  "pointer": string;
}

export interface DeltaData {
  "text": string;
  "restart": boolean;
}

export interface DiffAnswer {
  "against": string;
  "before": string | null;
  "unified": string;
  "changes": Array<ChangeRow> | null;
  "reason": string | null;
}

export interface DiffBody {
  "path"?: string;
  "text": string;
  "other"?: string | null;
  "before"?: string | null;
}

export interface DuplicateState {
  "do": "duplicate_state";
  "id": string;
  "to": string;
}

export interface EndData {
  "outcome": string;
}

export type EventType = "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END" | "TEXT_MESSAGE_CHUNK" | "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" | "TOOL_CALL_CHUNK" | "TOOL_CALL_RESULT" | "STATE_SNAPSHOT" | "STATE_DELTA" | "MESSAGES_SNAPSHOT" | "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA" | "RAW" | "CUSTOM" | "RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR" | "STEP_STARTED" | "STEP_FINISHED" | "REASONING_START" | "REASONING_MESSAGE_START" | "REASONING_MESSAGE_CONTENT" | "REASONING_MESSAGE_END" | "REASONING_MESSAGE_CHUNK" | "REASONING_END" | "REASONING_ENCRYPTED_VALUE" | "SUBAGENT_STARTED" | "SUBAGENT_FINISHED" | "SUBAGENT_ERROR";

export interface ExportBody {
  "path"?: string;
  "text": string;
  "form": "python" | "json" | "mermaid" | "svg" | "png" | "dot" | "procedure";
}

export interface Exported {
  "name": string;
  "media_type": string;
  "text": string | null;
  "base64": string | null;
}

export interface FileConflict {
  "path": string;
  "text": string | null;
  "sha256": string | null;
}

export interface FileEntry {
  "path": string;
  "kind": "definition" | "workflow" | "tests" | "layout" | "other";
  "name": string;
  "bytes": number;
  "modified": number;
  "writable": boolean;
}

export interface FindingRow {
  "code": string;
  "name": string;
  "level": "error" | "warning" | "info";
  "message": string;
  "hint": string | null;
  "line": number | null;
  "column": number | null;
  "offset": number | null;
  "pointer": string;
  "path": Array<string>;
  "state": string | null;
}

export interface FirstDifference {
  "turn": number;
  "what": string;
  "before": unknown;
  "after": unknown;
}

export interface FixOffer {
  "changes": Array<string>;
  "text": string;
}

export interface FlowFigures {
  "pointer": string;
  "visits": number;
  "drop_outs": number;
  "misses": number;
  "cost": number | null;
  "tokens": number;
  "seconds": number;
}

export interface FollowedTurn {
  "conversation_id": string;
  "number": number;
  "text": string;
  "by": string;
  "state": string;
  "previous_state": string;
  "moved": boolean;
  "context": Record<string, JsonValue>;
  "ended": boolean;
  "paused": PausedView | null;
  "output": JsonValue;
  "outcome": string;
  "request_id": string | null;
  "usage": UsageView;
  "choices": Array<ChoiceView>;
  "kind": "start" | "message" | "update" | "run" | "answer" | "due" | "end" | "undo" | "migrate" | "heard";
}

export interface ForkBody {
  "turn": number;
  "message"?: string | null;
  "text"?: string | null;
}

export interface GestureBody {
  "path"?: string;
  "text": string;
  "gestures": Array<OneGesture>;
}

export interface Graph {
  "name": string;
  "initial": string | null;
  "nodes": Array<GraphNode>;
  "edges": Array<GraphEdge>;
  "patterns": Array<string>;
}

export interface GraphEdge {
  "id": string;
  "source": string | null;
  "target": string;
  "pointer": string;
  "label": string;
  "words": string;
  "how": "picked" | "auto" | "timeout" | "exhausted";
  "returns": boolean;
  "agrees": boolean;
  "priority": number | null;
  "pattern": string | null;
  "level": "error" | "warning" | "info" | null;
}

export interface GraphNode {
  "id": string;
  "kind": string;
  "pointer": string;
  "initial": boolean;
  "purpose": string;
  "reply": string;
  "keys": Array<string>;
  "tools": Array<string>;
  "key_results": Array<string>;
  "flow": string | null;
  "flow_exists": boolean;
  "level": "error" | "warning" | "info" | null;
}

export interface InsertState {
  "do": "insert_state";
  "pointer": string;
  "id": string;
  "value"?: Record<string, unknown>;
}

export interface InsertValue {
  "do": "insert";
  "pointer": string;
  "value": unknown;
}

export type JsonValue = unknown;

export interface Layout {
  "positions": Record<string, CanvasPoint>;
  "folded": Array<string>;
  "sha256": string | null;
}

export interface LayoutBody {
  "path": string;
  "positions": Record<string, CanvasPoint>;
  "folded"?: Array<string>;
}

export interface Listing {
  "folder": string;
  "files": Array<FileEntry>;
  "truncated": boolean;
}

export interface MessageBody {
  "text"?: string | null;
  "choice"?: unknown;
}

export interface ModelCall {
  "messages": Array<Record<string, unknown>> | null;
  "reply": string;
  "input_tokens": number | null;
  "output_tokens": number | null;
  "seconds": number | null;
  "error": string | null;
}

export interface ModelResponse {
  "id": string;
  "object": "response";
  "status": "in_progress" | "completed" | "failed";
  "model": string;
  "output": Array<OutputItem>;
  "error": ResponseFault | null;
}

export interface ModelResponseEvent {
  "type": "response.created" | "response.in_progress" | "response.output_item.added" | "response.content_part.added" | "response.output_text.delta" | "response.output_text.done" | "response.content_part.done" | "response.output_item.done" | "response.completed" | "response.failed";
  "sequence_number": number;
}

export interface MoveValue {
  "do": "move";
  "pointer": string;
  "to": number;
}

export interface NewBody {
  "name": string;
  "template"?: string;
}

export interface OneGesture {
  "gesture": AddState | RenameState | DeleteState | DuplicateState | AddTransition | DeleteTransition | Repoint | InsertState | SetValue | DeleteValue | InsertValue | MoveValue | RenameKey;
}

export interface Opened {
  "path": string;
  "text": string;
  "sha256": string;
  "writable": boolean;
  "checked": CheckedText;
  "layout": Layout;
}

export interface OutputItem {
  "id": string;
  "type": "message" | "function_call";
  "role": "assistant" | null;
  "status": string;
}

export interface OverlayBody {
  "path"?: string;
  "text": string;
  "limit"?: number;
}

export interface Overlays {
  "conversations": number;
  "truncated": boolean;
  "flows": Array<FlowFigures>;
}

export interface Patched {
  "text": string;
  "checked": CheckedText;
}

export interface PauseData {
  "id": string;
  "kind": string;
  "what": string;
  "schema": Record<string, JsonValue>;
  "may_answer": boolean;
  "messages": string;
}

export interface PausedRow {
  "id": string;
  "kind": string;
  "what": string;
  "state": string;
  "call": Record<string, unknown> | null;
  "answer_schema": Record<string, unknown>;
}

export interface PausedView {
  "id": string;
  "kind": "wait" | "approval" | "break" | "unknown_outcome";
  "what": string;
  "state": string;
  "call": Record<string, JsonValue> | null;
  "schema": Record<string, JsonValue>;
  "expires": number | null;
  "may_answer": boolean;
  "messages": "refuse" | "record";
}

export interface Problem {
  "type": "urn:llm-fsm:problem:bad-request" | "urn:llm-fsm:problem:unauthorized" | "urn:llm-fsm:problem:forbidden" | "urn:llm-fsm:problem:not-found" | "urn:llm-fsm:problem:method-not-allowed" | "urn:llm-fsm:problem:not-acceptable" | "urn:llm-fsm:problem:timeout" | "urn:llm-fsm:problem:conflict" | "urn:llm-fsm:problem:cancelled" | "urn:llm-fsm:problem:ended" | "urn:llm-fsm:problem:too-large" | "urn:llm-fsm:problem:unsupported-media-type" | "urn:llm-fsm:problem:invalid" | "urn:llm-fsm:problem:too-many-requests" | "urn:llm-fsm:problem:model-unavailable" | "urn:llm-fsm:problem:store-unavailable" | "urn:llm-fsm:problem:host-failed" | "urn:llm-fsm:problem:internal" | "urn:llm-fsm:problem:unavailable";
  "title": string;
  "status": 400 | 401 | 403 | 404 | 405 | 406 | 408 | 409 | 410 | 413 | 415 | 422 | 429 | 500 | 503;
  "detail": string;
  "retry_after": number;
  "errors": Array<Record<string, unknown>>;
}

export interface ProgressData {
  "state": string;
  "report": JsonValue;
}

export interface PromptAnswer {
  "state": string;
  "messages": Array<Record<string, unknown>>;
  "reply_schema": Record<string, unknown> | null;
}

export interface PromptBody {
  "path"?: string;
  "text": string;
  "state"?: string | null;
  "context"?: Record<string, unknown>;
  "message"?: string;
}

export interface RanTest {
  "file": string;
  "name": string;
  "passed": boolean;
  "skipped": string | null;
  "failures": Array<string>;
  "line": number | null;
  "states": Array<string>;
}

export interface RanTests {
  "results": Array<RanTest>;
  "passed": number;
  "failed": number;
  "covered": Array<string>;
  "missed": Array<string>;
  "share": number;
  "reason": string | null;
}

export interface ReadingData {
  "read": number;
  "total": number;
}

export interface ReminderData {
  "due": number;
}

export interface RenameKey {
  "do": "rename_key";
  "pointer": string;
  "to": string;
}

export interface RenameState {
  "do": "rename_state";
  "id": string;
  "to": string;
}

export interface RenamedName {
  "kind": "state" | "key";
  "name": string;
  "to": string;
}

export interface ReplayAnswer {
  "same": boolean;
  "first": FirstDifference | null;
  "reason": string | null;
}

export interface ReplayBody {
  "path"?: string;
  "text": string;
}

export interface Repoint {
  "do": "repoint";
  "pointer": string;
  "target"?: string | null;
  "source"?: string | null;
}

export interface ResponseFault {
  "code": string;
  "message": string;
  "retry_after": number | null;
}

export interface RunTestsBody {
  "path": string;
  "text"?: string | null;
}

export interface SaveBody {
  "path": string;
  "text": string;
  "base"?: string | null;
  "overwrite"?: boolean;
  "renamings"?: Array<RenamedName>;
}

export interface SaveTestBody {
  "name": string;
  "path"?: string | null;
}

export interface SavedFile {
  "path": string;
  "sha256": string;
  "modified": number;
  "unchanged": boolean;
  "tests": Array<string>;
}

export interface SavedTest {
  "path": string;
  "name": string;
  "passed": boolean | null;
  "message": string;
}

export interface SetValue {
  "do": "set";
  "pointer": string;
  "value": unknown;
}

export interface StateData {
  "state": string;
  "previous_state": string;
  "by": string;
}

export interface StoredPage {
  "conversations": Array<StoredRow>;
  "next": string | null;
}

export interface StoredRow {
  "id": string;
  "definition": string;
  "state": string;
  "turns": number;
  "ended": boolean;
  "updated": number;
  "paused": string | null;
  "fits": boolean | null;
}

export interface Streamed {
  "delta": string | null;
  "replaced": string | null;
  "state": string | null;
  "talk": TalkView | null;
  "problem": Record<string, unknown> | null;
}

export interface StudioSettings {
  "version": string;
  "folder": string;
  "file": string | null;
  "models": Array<string>;
  "has_store": boolean;
  "can_draw": boolean;
  "has_git": boolean;
}

export interface TalkBody {
  "path"?: string;
  "text": string;
  "model"?: string;
  "replies"?: Array<unknown> | null;
  "context"?: Record<string, unknown>;
  "state"?: string | null;
}

export interface TalkView {
  "id": string;
  "path": string;
  "model": string;
  "source": "playground" | "stored";
  "read_only": boolean;
  "definition": string;
  "state": string;
  "ended": boolean;
  "context": Record<string, unknown>;
  "turns": Array<TurnRow>;
  "choices": Array<ChoiceRow>;
  "paused": PausedRow | null;
  "forked_from": string | null;
  "is_stale": boolean;
  "not_forked": string | null;
  "problem": string | null;
}

export interface Template {
  "name": string;
  "title": string;
  "description": string;
  "kind": "definition" | "workflow" | "tests" | "layout" | "other";
}

export interface TextBody {
  "path"?: string;
  "text": string;
}

export interface TimeoutData {
  "pause": string;
}

export interface TokenUsage {
  "prompt_tokens": number;
  "completion_tokens": number;
  "total_tokens": number;
}

export interface ToolCallView {
  "index": number | null;
  "id": string;
  "type": "function";
  "function": ToolFunction;
}

export interface ToolData {
  "name": string;
  "failed": boolean | null;
  "seconds": number | null;
  "refused": string | null;
}

export interface ToolFunction {
  "name": string;
  "arguments": string;
}

export interface ToolRun {
  "name": string;
  "arguments": unknown;
  "result": unknown;
  "error": string | null;
}

export type TurnEvent = Record<string, unknown>;

export interface TurnInspection {
  "turn": TurnRow;
  "why": Record<string, unknown>;
  "calls": Array<ModelCall>;
  "before": Record<string, unknown>;
  "after": Record<string, unknown>;
  "changed": Array<ChangedKey>;
  "tools": Array<ToolRun>;
  "events": Array<Record<string, unknown>>;
}

export interface TurnRow {
  "number": number;
  "by": "start" | "message" | "answer" | "update" | "time" | "run";
  "user": string | null;
  "text": string;
  "state": string;
  "previous_state": string | null;
  "moved": boolean;
  "ended": boolean;
  "choices": Array<ChoiceRow>;
  "paused": PausedRow | null;
  "usage": TurnUsage;
  "edges": Array<string>;
  "states": Array<string>;
}

export interface TurnUsage {
  "calls": number;
  "input_tokens": number;
  "output_tokens": number;
  "seconds": number;
  "cost": number | null;
}

export interface TurnView {
  "conversation_id": string;
  "number": number;
  "text": string;
  "by": string;
  "state": string;
  "previous_state": string;
  "moved": boolean;
  "context": Record<string, JsonValue>;
  "ended": boolean;
  "paused": PausedView | null;
  "output": JsonValue;
  "outcome": string;
  "request_id": string | null;
  "usage": UsageView;
  "choices": Array<ChoiceView>;
}

export interface UndoneData {
  "record": number;
}

export interface UsageView {
  "calls": number;
  "attempts": number;
  "input_tokens": number;
  "output_tokens": number;
  "seconds": number;
  "cost": number;
}

export interface UserMessageData {
  "text": string;
  "picked": boolean;
  "request_id": string | null;
}
