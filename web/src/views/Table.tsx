// A table below a line of names.
import type { ComponentChildren } from "preact";

interface TableProps {
  readonly label: string;
  readonly head: readonly string[];
  readonly children: ComponentChildren;
}

export const Table = ({ label, head, children }: TableProps) => (
  <table aria-label={label}>
    <thead>
      <tr>
        {head.map((one) => (
          <th key={one}>{one}</th>
        ))}
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
);
