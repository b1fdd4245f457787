import { useState } from "preact/hooks";

import { post, segment } from "../../api/client.ts";
import { type ApiProblem, problemOf } from "../../api/problem.ts";
import { dateTime } from "../../text/format.ts";
import { Button, Choice } from "../../ui/basics.tsx";
import { Copy } from "../../ui/Copy.tsx";
import { Dialog } from "../../ui/Dialog.tsx";
import { ProblemBox } from "../../ui/states.tsx";

const LENGTHS = [
  ["1d", "1 day"],
  ["7d", "7 days"],
  ["30d", "30 days"],
] as const;

interface Link {
  url_path: string;
  expires_at: string;
}

/** Makes a link with which a customer sees its own usage, and nothing else. */
export function UsageLink({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [length, setLength] = useState<(typeof LENGTHS)[number][0]>("30d");
  const [link, setLink] = useState<Link | null>(null);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const make = () =>
    post<Link>(`usage/${segment(tenant)}/link`, { for: length }).then(setLink, (error: unknown) =>
      setProblem(problemOf(error)),
    );
  const url = link && new URL(link.url_path.replace(/^\//, ""), document.baseURI).href;
  return (
    <Dialog title="Usage link" onClose={onClose}>
      <p>
        Whoever has the link sees this tenant's limits, usage and last denials, and nothing else. It also
        works on the HTTP listener, where customers can reach it.
      </p>
      {link && url ? (
        <>
          <div class="secret">
            <code>{url}</code>
            <Copy text={url} label="Copy the link" />
          </div>
          <p class="muted">Valid until {dateTime(link.expires_at)}.</p>
        </>
      ) : (
        <>
          <Choice label="Valid for" value={length} options={LENGTHS} onChoose={setLength} />
          {problem && <ProblemBox problem={problem} />}
          <footer class="dialog-foot">
            <Button onClick={onClose}>Cancel</Button>
            <Button kind="primary" needs="operator" onClick={() => void make()}>
              Make the link
            </Button>
          </footer>
        </>
      )}
    </Dialog>
  );
}
