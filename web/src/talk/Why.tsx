// Why a turn went as it did: its decisions with their candidates and conditions, and what else was noted.
import { isObject } from "../forms/pointers";
import { Table } from "../views/Table";

type Row = Record<string, unknown>;

const OUTCOMES: Record<string, string> = {
  moved: "moved",
  stayed: "stayed",
  refused: "the pick was refused",
  unreadable: "the reply could not be read",
  stuck: "no way on was open",
};
const DECIDERS: Record<string, string> = {
  model: "The model picked",
  auto: "The conditions alone decided",
  decide: "The conditions decided",
  host: "Your program decided",
};

export const show = (value: unknown): string =>
  typeof value === "string" ? value : JSON.stringify(value, null, 1);

const rows = (value: unknown): Row[] => (Array.isArray(value) ? value.filter(isObject) : []);
const words = (value: unknown): string => (typeof value === "string" ? value : "");

/** Return a value as a condition reads it: texts in quotes, so that "4" and 4 look different. */
const exact = (value: unknown): string => JSON.stringify(value) ?? "nothing";

export function Why({ why }: { why: Row }) {
  return (
    <ul class="why">
      {rows(why["notes"]).map((note, index) => (
        <li key={index}>
          {note["type"] === "MoveDecision" ? <Decision note={note} /> : <Note note={note} />}
        </li>
      ))}
    </ul>
  );
}

/** Any other note: its kind, and its parts as a list. */
function Note({ note }: { note: Row }) {
  const { type, ...rest } = note;
  return (
    <>
      <b>{String(type).replace(/([a-z])([A-Z])/g, "$1 $2")}</b>
      <Told value={rest} />
    </>
  );
}

function Decision({ note }: { note: Row }) {
  const state = words(note["state"]);
  const target = words(note["target"]);
  const reason = words(note["reason"]);
  const candidates = rows(note["candidates"]);
  return (
    <>
      <b>Decision in {state}</b>
      <p>
        {DECIDERS[words(note["by"])] ?? words(note["by"])}
        {target && ` ${target}`}: {OUTCOMES[words(note["outcome"])] ?? words(note["outcome"])}.{" "}
        {reason}
      </p>
      {candidates.length > 0 && (
        <Table label={`Candidates in ${state}`} head={["Way on", "Conditions", "Verdict"]}>
          {candidates.map((one, index) => (
            <Candidate key={index} candidate={one} />
          ))}
        </Table>
      )}
    </>
  );
}

function Candidate({ candidate }: { candidate: Row }) {
  const checks = rows(candidate["checks"]);
  const holds = candidate["holds"] === true ? "holds" : "does not hold";
  return (
    <tr class={candidate["taken"] === true ? "taken" : ""}>
      <td>
        → {words(candidate["target"])} <small>{words(candidate["description"])}</small>
      </td>
      <td>
        {checks.length === 0 && <small>none</small>}
        {checks.map((one, index) => (
          <Check key={index} check={one} />
        ))}
      </td>
      <td>{candidate["taken"] === true ? <b>taken</b> : holds}</td>
    </tr>
  );
}

function Check({ check }: { check: Row }) {
  const values = isObject(check["values"]) ? Object.entries(check["values"]) : [];
  const unset = Array.isArray(check["unset"]) ? check["unset"].map(String) : [];
  const error = words(check["error"]);
  const read = [
    ...values.map(([key, value]) => `${key} = ${exact(value)}`),
    ...unset.map((key) => `${key} is not known`),
  ];
  return (
    <div class="check">
      {words(check["description"])} <b>{verdictOf(check["holds"])}</b>{" "}
      {read.length > 0 && <small>{read.join(", ")}</small>}
      {error && <small class="error">{error}</small>}
    </div>
  );
}

function verdictOf(holds: unknown): string {
  if (holds === true) return "true";
  return holds === false ? "false" : "the model judges";
}

const isSaid = (value: unknown): boolean =>
  value !== null && value !== "" && !(Array.isArray(value) && value.length === 0);

function Told({ value }: { value: unknown }) {
  if (Array.isArray(value)) {
    return (
      <ul>
        {value.map((one, index) => (
          <li key={index}>
            <Told value={one} />
          </li>
        ))}
      </ul>
    );
  }
  if (!isObject(value)) return <span>{show(value)}</span>;
  return (
    <ul>
      {Object.entries(value)
        .filter(([, inner]) => isSaid(inner))
        .map(([key, inner]) => (
          <li key={key}>
            <small>{key.replace(/_/g, " ")}</small> <Told value={inner} />
          </li>
        ))}
    </ul>
  );
}
