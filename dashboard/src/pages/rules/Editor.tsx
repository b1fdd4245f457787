import { useRef, useState } from "preact/hooks";

import type { FieldProblem } from "../../api/types.ts";

/** The height of a line in pixels, as the style sheet sets it. */
const LINE_PX = 20;

/** A text field for YAML with line numbers, and a mark on each line with a mistake. */
export function Editor(props: {
  text: string;
  problems: FieldProblem[];
  readOnly: boolean;
  label: string;
  onInput: (text: string) => void;
}) {
  const [scroll, setScroll] = useState(0);
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = props.text.split("\n").length;
  const marked = new Map(
    props.problems.filter((problem) => problem.line).map((problem) => [problem.line, problem]),
  );
  return (
    <div class="editor">
      <div class="editor-gutter" aria-hidden="true">
        <div style={{ transform: `translateY(${-scroll}px)` }}>
          {Array.from({ length: lines }, (_, index) => (
            <div key={index} class={marked.has(index + 1) ? "line-wrong" : undefined}>
              {index + 1}
            </div>
          ))}
        </div>
      </div>
      <div class="editor-text">
        <div class="editor-marks" aria-hidden="true">
          {[...marked.keys()].map((line) => (
            <div
              key={line}
              class="editor-mark"
              style={{ top: `${((line ?? 1) - 1) * LINE_PX + 10 - scroll}px` }}
            />
          ))}
        </div>
        <textarea
          ref={area}
          aria-label={props.label}
          wrap="off"
          spellcheck={false}
          autocomplete="off"
          readOnly={props.readOnly}
          value={props.text}
          aria-invalid={props.problems.length > 0}
          onScroll={(event) => setScroll(event.currentTarget.scrollTop)}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      </div>
    </div>
  );
}
