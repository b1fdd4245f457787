import type { Validation } from "../../api/types.ts";
import { Badge } from "../../ui/basics.tsx";

/** What is wrong with a text of rules, and what probably is. */
export function Findings({ validation }: { validation: Validation | null }) {
  if (validation === null) return <p class="muted">Checking</p>;
  return (
    <div class="findings" aria-live="polite">
      {validation.valid && (
        <p>
          <Badge tone="allowed">valid</Badge>
        </p>
      )}
      {validation.problems.map((problem, index) => (
        <p key={index} data-problem>
          <Badge tone="denied">{problem.line ? `line ${problem.line}` : "wrong"}</Badge>{" "}
          {problem.field && <code>{problem.field}</code>} {problem.reason}
        </p>
      ))}
      {validation.findings.map((finding) => (
        <p key={finding}>
          <Badge tone="error">note</Badge> {finding}
        </p>
      ))}
    </div>
  );
}
