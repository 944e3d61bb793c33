// Made by web/scripts/api_types.py from the OpenAPI document of the studio. Do not edit.
export interface AddState {
  do: "add_state"; id: string; value?: Record<string, unknown>; after?: string | null;
}
export interface AddTransition {
  do: "add_transition"; source: string | null; target: string; value?: Record<string, unknown>;
  label?: string | null; index?: number | null;
}
export interface AnswerBody { value: unknown; }
export interface CanvasPoint { x: number; y: number; }
export interface ChangeRow {
  impact: "safe" | "needs-map" | "strands"; message: string; reason: string; pointer: string;
}
export interface ChangedKey {
  key: string; before: unknown; after: unknown; source: string; quote: string | null;
}
export interface CheckedText {
  kind: "definition" | "workflow" | "tests" | "layout" | "other"; is_json: boolean;
  findings: Array<FindingRow>; fix: FixOffer | null; graph: Graph; value: unknown;
}
export interface ChoiceRow { label: string; value: unknown; }
export interface ConditionAnswer {
  logic: unknown; expression: string | null; faults: Array<string>; holds: boolean | null;
  error: string | null;
}
export interface ConditionBody {
  logic?: unknown; expression?: string | null; context?: Record<string, unknown> | null;
}
export interface Created { files: Array<string>; }
export interface DeleteState { do: "delete_state"; id: string; keep_transitions?: boolean; }
export interface DeleteTransition { do: "delete_transition"; pointer: string; }
export interface DeleteValue { do: "delete"; pointer: string; }
export interface DiffAnswer {
  against: string; before: string | null; unified: string; changes: Array<ChangeRow> | null;
  reason: string | null;
}
export interface DiffBody {
  path?: string; text: string; other?: string | null; before?: string | null; commit?: string;
}
export interface DuplicateState { do: "duplicate_state"; id: string; to: string; }
export interface EditedBody { path?: string; text: string; translations?: Record<string, unknown>; }
export interface ExportBody {
  path?: string; text: string;
  form: "python" | "json" | "mermaid" | "svg" | "png" | "dot" | "procedure";
}
export interface Exported {
  name: string; media_type: string; text: string | null; base64: string | null;
}
export interface FileEntry {
  path: string; kind: "definition" | "workflow" | "tests" | "layout" | "other"; name: string;
  bytes: number; modified: number; writable: boolean;
}
export interface FindingRow {
  code: string; name: string; level: "error" | "warning" | "info"; message: string;
  hint: string | null; line: number | null; column: number | null; offset: number | null;
  pointer: string; path: Array<string>; state: string | null;
}
export interface FirstDifference { turn: number; what: string; was: unknown; now: unknown; }
export interface FixOffer { changes: Array<string>; text: string; }
export interface FlowFigures {
  pointer: string; visits: number; drop_outs: number; misses: number; cost: number | null;
  tokens: number; seconds: number;
}
export interface ForkBody { turn: number; message?: string | null; text?: string | null; }
export interface GestureBody {
  path?: string; text: string; translations?: Record<string, unknown>; gestures: Array<OneGesture>;
}
export interface GitCommit { id: string; time: number; words: string; }
export interface Graph {
  name: string; initial: string | null; nodes: Array<GraphNode>; edges: Array<GraphEdge>;
  patterns: Array<string>;
}
export interface GraphEdge {
  id: string; source: string | null; target: string; pointer: string; label: string; words: string;
  how: "picked" | "auto" | "timeout" | "exhausted"; returns: boolean; agrees: boolean;
  priority: number | null; pattern: string | null; level: "error" | "warning" | "info" | null;
}
export interface GraphNode {
  id: string; kind: string; pointer: string; initial: boolean; purpose: string; reply: string;
  keys: Array<string>; tools: Array<string>; key_results: Array<string>; flow: string | null;
  flow_exists: boolean; level: "error" | "warning" | "info" | null;
}
export interface InsertState {
  do: "insert_state"; pointer: string; id: string; value?: Record<string, unknown>;
}
export interface InsertValue { do: "insert"; pointer: string; value: unknown; }
export interface Layout {
  positions: Record<string, CanvasPoint>; folded: Array<string>; sha256: string | null;
}
export interface LayoutBody {
  path: string; positions: Record<string, CanvasPoint>; folded?: Array<string>;
}
export interface Listing {
  folder: string; files: Array<FileEntry>; releases: Array<ReleaseRow>; truncated: boolean;
}
export interface MessageBody { text?: string | null; choice?: unknown; }
export interface ModelCall {
  messages: Array<Record<string, unknown>> | null; reply: string; input_tokens: number | null;
  output_tokens: number | null; seconds: number | null; error: string | null;
}
export interface MoveValue { do: "move"; pointer: string; to: number; }
export interface NewBody { name: string; template?: string; }
export interface OneGesture {
  gesture: AddState | RenameState | DeleteState | DuplicateState | AddTransition | DeleteTransition | Repoint | InsertState | SetValue | DeleteValue | InsertValue | MoveValue | RenameKey;
}
export interface Opened {
  path: string; text: string; sha256: string; writable: boolean; checked: CheckedText;
  layout: Layout;
}
export interface OverlayBody { path?: string; text: string; limit?: number; }
export interface Overlays { conversations: number; truncated: boolean; flows: Array<FlowFigures>; }
export interface Patched { text: string; checked: CheckedText; }
export interface PausedRow {
  id: string; kind: string; what: string; state: string; call: Record<string, unknown> | null;
  answer_schema: Record<string, unknown>;
}
export interface RanTest {
  file: string; name: string; passed: boolean; skipped: string | null; failures: Array<string>;
  line: number | null; states: Array<string>;
}
export interface RanTests {
  results: Array<RanTest>; passed: number; failed: number; covered: Array<string>;
  missed: Array<string>; share: number; reason: string | null;
}
export interface ReleaseRow { path: string; name: string; state: string; arms: Array<string>; }
export interface RenameKey { do: "rename_key"; pointer: string; to: string; }
export interface RenameState { do: "rename_state"; id: string; to: string; }
export interface RenamedName { kind: "state" | "key"; name: string; to: string; }
export interface ReplayAnswer {
  same: boolean; first: FirstDifference | null; reason: string | null; reworded: Array<string>;
}
export interface ReplayBody { path?: string; text: string; model?: string | null; }
export interface Repoint {
  do: "repoint"; pointer: string; target?: string | null; source?: string | null;
}
export interface RunTestsBody { path: string; text?: string | null; }
export interface SaveBody {
  path: string; text: string; base?: string | null; overwrite?: boolean;
  renamings?: Array<RenamedName>; translations?: Record<string, unknown>;
}
export interface SaveTestBody { name: string; path?: string | null; }
export interface SavedFile {
  path: string; sha256: string; modified: number; unchanged: boolean; others: Array<string>;
}
export interface SavedTest { path: string; name: string; passed: boolean | null; message: string; }
export interface SetValue { do: "set"; pointer: string; value: unknown; }
export interface StoredPage { conversations: Array<StoredRow>; next: string | null; }
export interface StoredRow {
  id: string; definition: string; state: string; turns: number; ended: boolean;
  outcome: string | null; created: number; updated: number; paused: string | null;
}
export interface Streamed {
  delta: string | null; replaced: string | null; state: string | null; talk: TalkView | null;
  problem: Record<string, unknown> | null;
}
export interface StudioSettings {
  version: string; folder: string; file: string | null; models: Array<string>; has_store: boolean;
  can_draw: boolean; has_git: boolean;
}
export interface TalkBody {
  path?: string; text: string; model?: string; replies?: Array<unknown> | null;
  context?: Record<string, unknown>; state?: string | null;
}
export interface TalkView {
  id: string; path: string; model: string; source: "playground" | "stored"; read_only: boolean;
  definition: string; state: string; ended: boolean; context: Record<string, unknown>;
  turns: Array<TurnRow>; choices: Array<ChoiceRow>; paused: PausedRow | null;
  forked_from: string | null; is_stale: boolean; not_forked: string | null; version: string | null;
  problem: string | null;
}
export interface Template {
  name: string; title: string; description: string;
  kind: "definition" | "workflow" | "tests" | "layout" | "other";
}
export interface TextRow {
  pointer: string; text: string; translations: Record<string, Translation>;
}
export interface Texts { language: string; languages: Array<string>; rows: Array<TextRow>; }
export interface ToolRun {
  name: string; arguments: unknown; result: unknown; error: string | null;
}
export interface Translation { source: string; text: string; fuzzy: boolean; }
export interface TurnInspection {
  turn: TurnRow; why: Record<string, unknown>; calls: Array<ModelCall>;
  before: Record<string, unknown>; after: Record<string, unknown>; changed: Array<ChangedKey>;
  tools: Array<ToolRun>; events: Array<Record<string, unknown>>;
}
export interface TurnRow {
  number: number; by: "start" | "message" | "answer" | "update" | "time" | "run";
  user: string | null; text: string; state: string; previous_state: string | null; moved: boolean;
  ended: boolean; choices: Array<ChoiceRow>; paused: PausedRow | null; usage: TurnUsage;
  edges: Array<string>; states: Array<string>;
}
export interface TurnUsage {
  calls: number; input_tokens: number; output_tokens: number; seconds: number; cost: number | null;
}
