// A field for text that is no language of people.
import type { ComponentProps } from "preact";

interface CodeProps extends Pick<ComponentProps<"textarea">, "id" | "placeholder" | "rows"> {
  readonly value: string;
  readonly put: (text: string) => void;
}

export const Code = ({ put, ...rest }: CodeProps) => (
  <textarea
    {...rest}
    class="code"
    spellcheck={false}
    onInput={(event) => put(event.currentTarget.value)}
  />
);
