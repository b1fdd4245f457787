import { diffLines } from "../../text/diff.ts";

const SIGNS = { added: "+", removed: "−", context: " ", place: " " };

/** A unified diff, with signs as well as colours. */
export function DiffView({ diff }: { diff: string }) {
  const lines = diffLines(diff);
  if (lines.length === 0) return <p class="muted">The texts are the same.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section class="diff" tabIndex={0} aria-label="Difference">
      {lines.map((line, index) => (
        <div key={index} class={`diff-${line.kind}`}>
          <span class="diff-sign">{SIGNS[line.kind]}</span>
          {line.text}
        </div>
      ))}
    </section>
  );
}
