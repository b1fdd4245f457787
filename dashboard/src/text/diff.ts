/** Lines of a unified diff, with what each of them is. */
export interface DiffLine {
  kind: "added" | "removed" | "context" | "place";
  text: string;
}

export function diffLines(diff: string): DiffLine[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  return lines
    .filter((line) => line !== "" && !line.startsWith("--- ") && !line.startsWith("+++ "))
    .map((line) => {
      if (line.startsWith("@@")) return { kind: "place", text: line };
      if (line.startsWith("+")) return { kind: "added", text: line.slice(1) };
      if (line.startsWith("-")) return { kind: "removed", text: line.slice(1) };
      return { kind: "context", text: line.slice(1) };
    });
}
