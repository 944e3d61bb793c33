// One of some texts to choose.
import type { ComponentProps } from "preact";

/** Values, those with other words as pairs. */
export type Options = readonly (string | readonly [value: string, words: string])[];

interface SelectProps extends Omit<ComponentProps<"select">, "onChange" | "role" | "size"> {
  readonly options: Options;
  readonly choose: (value: string, field: HTMLSelectElement) => unknown;
}

export const Select = ({ options, choose, ...rest }: SelectProps) => (
  <select {...rest} onChange={({ currentTarget: field }) => void choose(field.value, field)}>
    {options.map((one) => {
      const [value, words] = typeof one === "string" ? [one, one] : one;
      return (
        <option key={value} value={value}>
          {words}
        </option>
      );
    })}
  </select>
);
