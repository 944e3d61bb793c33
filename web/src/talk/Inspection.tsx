// Everything about one turn: why it went so, what changed, prompts, tools and the context.
import type { TurnInspection } from "../api/types";
import { Table } from "../views/Table";
import { Why, show } from "./Why";

export function Inspection({ found }: { found: TurnInspection }) {
  const { usage } = found.turn;
  return (
    <div class="inspection" role="region" aria-label={`Turn ${found.turn.number}`}>
      <details open>
        <summary>Why</summary>
        <Why why={found.why} />
      </details>
      {found.changed.length > 0 && (
        <details open>
          <summary>Context: what changed</summary>
          <Table label="What changed" head={["Key", "Before", "After", "From"]}>
            {found.changed.map((one) => (
              <tr key={one.key}>
                <td>{one.key}</td>
                <td>{show(one.before ?? "–")}</td>
                <td>{show(one.after ?? "–")}</td>
                <td>{one.quote ? `“${one.quote}”` : one.source}</td>
              </tr>
            ))}
          </Table>
        </details>
      )}
      {found.calls.map((call, index) => (
        <details key={index}>
          <summary>Prompt and reply {found.calls.length > 1 ? index + 1 : ""}</summary>
          {(call.messages ?? []).map((message, n) => (
            <div key={n}>
              <b>{String(message["role"])}</b>
              <pre tabIndex={0}>{show(message["content"])}</pre>
            </div>
          ))}
          <b>reply</b>
          <pre role="region" aria-label="Reply" tabIndex={0}>
            {call.error ?? call.reply}
          </pre>
        </details>
      ))}
      {found.tools.map((tool, index) => (
        <details key={index}>
          <summary>Tool {tool.name}</summary>
          <pre tabIndex={0}>{`${show(tool.arguments)}\n→ ${tool.error ?? show(tool.result)}`}</pre>
        </details>
      ))}
      <details>
        <summary>Context before and after</summary>
        <pre tabIndex={0}>{show(found.before)}</pre>
        <pre tabIndex={0}>{show(found.after)}</pre>
      </details>
      <small>
        {usage.calls} calls, {usage.input_tokens} + {usage.output_tokens} tokens,{" "}
        {usage.seconds.toFixed(2)} s{usage.cost !== null && `, $${usage.cost.toPrecision(3)}`}
      </small>
    </div>
  );
}
