// What the checker says about one place.
import { findingsAt } from "./values";

type FaultsProps = Readonly<{ pointer: string; id?: string; isDeep?: boolean }>;

export function Faults({ pointer, id, isDeep }: FaultsProps) {
  const found = findingsAt(pointer, isDeep);
  if (found.length === 0) return null;
  return (
    <ul class="faults" id={id}>
      {found.map((one) => (
        <li class={one.level} key={one.code + one.pointer + one.message}>
          {one.message}
          {one.hint && <small> {one.hint}</small>}
        </li>
      ))}
    </ul>
  );
}
