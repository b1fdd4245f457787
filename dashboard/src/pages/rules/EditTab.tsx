import { useEffect, useState } from "preact/hooks";

import { getText, post, postYaml, putYaml, segment } from "../../api/client.ts";
import { type ApiProblem, problemOf } from "../../api/problem.ts";
import type { DryRun, RulesDiff, Validation } from "../../api/types.ts";
import { useResource } from "../../state/resource.ts";
import { useMay } from "../../state/session.ts";
import { Button, Field, Panel } from "../../ui/basics.tsx";
import { Confirm } from "../../ui/Confirm.tsx";
import { ProblemBox, Shown } from "../../ui/states.tsx";
import { toast } from "../../ui/Toasts.tsx";
import { DiffView } from "./DiffView.tsx";
import { DryRunTable } from "./DryRunTable.tsx";
import { Editor } from "./Editor.tsx";
import { Findings } from "./Findings.tsx";

/** Validation waits until the reader stops typing. */
const TYPING_MS = 250;

function template(domain: string): string {
  return `domain: ${JSON.stringify(domain)}\ndescriptors:\n  - key: user\n    limits:\n      - { name: steady, algorithm: token_bucket, requests: 100, per: minute, burst: 20 }\n`;
}

/** The text of a domain's rules, validated while it is written, tried against recorded traffic, and pushed. */
export function EditTab({ domain, exists }: { domain: string; exists: boolean }) {
  const load = (signal: AbortSignal) =>
    exists
      ? getText(`rules/${segment(domain)}`, {}, signal)
      : Promise.resolve({ body: template(domain), etag: null });
  const stored = useResource(`text ${domain} ${exists}`, load);
  return (
    <Shown resource={stored} rows={12}>
      {({ body, etag }) => (
        <Draft
          key={etag ?? "new"}
          domain={domain}
          stored={exists ? body : ""}
          initial={body}
          etag={etag}
          onPushed={stored.reload}
        />
      )}
    </Shown>
  );
}

type Open = { kind: "push"; diff: RulesDiff } | { kind: "dry-run"; result: DryRun };

function Draft(props: {
  domain: string;
  stored: string;
  initial: string;
  etag: string | null;
  onPushed: () => void;
}) {
  const { domain } = props;
  const [text, setText] = useState(props.initial);
  const validation = useValidation(text);
  const [open, setOpen] = useState<Open | null>(null);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const [comment, setComment] = useState("");
  const may = useMay("operator");
  const changed = text !== props.stored;
  const valid = validation?.valid === true;
  const attempt = async (work: () => Promise<Open>) => {
    setProblem(null);
    try {
      setOpen(await work());
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const review = () =>
    attempt(async () => ({
      kind: "push",
      diff: await putYaml<RulesDiff>(`rules/${segment(domain)}`, text, { dry_run: true }, props.etag),
    }));
  const dryRun = () =>
    attempt(async () => ({
      kind: "dry-run",
      result: await post<DryRun>("rules/dry-run", { domain, yaml: text }),
    }));
  const push = async () => {
    const pushed = await putYaml<RulesDiff>(`rules/${segment(domain)}`, text, { comment }, props.etag);
    toast(`Version ${pushed.version} of ${domain} is in force`);
    props.onPushed();
  };
  return (
    <>
      <Panel>
        <Editor
          text={text}
          onInput={setText}
          problems={validation?.problems ?? []}
          readOnly={!may}
          label={`Rules of ${domain}`}
        />
        <div class="editor-foot">
          <Findings validation={validation} />
          <div class="tools">
            <Button kind="quiet" disabled={!changed} onClick={() => setText(props.initial)}>
              Undo all
            </Button>
            <Button
              disabled={!valid}
              onClick={() => void dryRun()}
              title="Against the traffic of the last hour"
            >
              Dry run
            </Button>
            <Button
              kind="primary"
              needs="operator"
              disabled={!valid || !changed}
              onClick={() => void review()}
            >
              Review and push
            </Button>
          </div>
        </div>
      </Panel>
      {problem && <ProblemBox problem={problem} />}
      {open?.kind === "dry-run" && <DryRunTable result={open.result} />}
      {open?.kind === "push" && (
        <Confirm
          title={`Push the rules of ${domain}?`}
          wide
          action="Push"
          onClose={() => setOpen(null)}
          onConfirm={push}
        >
          <DiffView diff={open.diff.diff} />
          <Summary diff={open.diff} />
          <Field label="Comment" hint="For the history: why">
            <input
              maxLength={1024}
              value={comment}
              onInput={(event) => setComment(event.currentTarget.value)}
            />
          </Field>
        </Confirm>
      )}
    </>
  );
}

const MOST_NAMED = 5;

function Summary({ diff }: { diff: RulesDiff }) {
  const parts: [string, string[]][] = [
    ["Added", diff.added],
    ["Changed", diff.changed],
    ["Removed", diff.removed],
  ];
  const named = (rules: string[]) => {
    const more = rules.length - MOST_NAMED;
    return rules.slice(0, MOST_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
  };
  const texts = parts
    .filter(([, rules]) => rules.length > 0)
    .map(([word, rules]) => `${word}: ${named(rules)}.`);
  return (
    <>
      <p>{texts.length === 0 ? "No rule changes." : texts.join(" ")}</p>
      {diff.warnings.map((warning) => (
        <p key={warning} class="notice">
          {warning}
        </p>
      ))}
    </>
  );
}

function useValidation(text: string): Validation | null {
  const [validation, setValidation] = useState<Validation | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      if (text.trim() === "") {
        setValidation({ valid: false, problems: [{ field: "", reason: "the text is empty" }], findings: [] });
        return;
      }
      postYaml<Validation>("rules/validate", text, abort.signal).then(setValidation, () => undefined);
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return validation;
}
