import { useState } from "preact/hooks";

import { post } from "../../api/client.ts";
import { ApiProblem, problemOf } from "../../api/problem.ts";
import { useDomains } from "../../api/reads.ts";
import type { TryResult, Why } from "../../api/types.ts";
import { filter, useRoute } from "../../state/place.ts";
import { type PastedRequest, parsePasted } from "../../text/request.ts";
import { Badge, Button, Field, PageHead, Panel } from "../../ui/basics.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Empty, ProblemBox, sentence } from "../../ui/states.tsx";
import { ExplanationView } from "./ExplanationView.tsx";

const EXAMPLES = `api_key=acme
endpoint=POST /orders`;

type Outcome = { why?: Why; result?: TryResult; problem?: ApiProblem };

/** Asks how any request would be decided, and sends one for real. */
export function TryIt() {
  const { query } = useRoute();
  const domains = useDomains();
  const domain = query.domain ?? domains.data?.[0]?.domain ?? "";
  const text = query.request ?? "";
  const read = attempt(text, domain);
  const [outcome, setOutcome] = useState<Outcome>({});
  const [busy, setBusy] = useState(false);
  const run = async (work: () => Promise<Outcome>) => {
    setBusy(true);
    setOutcome(await work().catch((error: unknown) => ({ problem: problemOf(error) })));
    setBusy(false);
  };
  const explain = () => run(async () => ({ why: await post<Why>("why", read.request?.body) }));
  const send = () =>
    run(async () => {
      const result = await post<TryResult>("try", read.request?.body).catch((error: unknown) => {
        const problem = problemOf(error);
        const missing = "this version of the service cannot send requests from here; use POST /v1/check";
        throw problem.status === 404 ? new ApiProblem(404, missing) : problem;
      });
      return { result, why: await post<Why>("why", read.request?.body) };
    });
  return (
    <>
      <PageHead title="Try it" note="How would this request be decided, and why?" />
      <div class="grid-try">
        <Panel title="Request">
          <form
            class="form"
            onSubmit={(event) => {
              event.preventDefault();
              void explain();
            }}
          >
            <Field label="Domain">
              <select value={domain} onChange={(event) => filter({ domain: event.currentTarget.value })}>
                {(domains.data ?? []).map((item) => (
                  <option key={item.domain} value={item.domain}>
                    {item.domain}
                  </option>
                ))}
              </select>
            </Field>
            <Field
              label="Descriptor, headers or curl command"
              hint={
                read.request
                  ? `Read as ${read.request.readAs}.`
                  : text.trim() === ""
                    ? "One key=value per line; an empty line begins the next descriptor. JSON, headers and curl commands work too."
                    : undefined
              }
              error={text.trim() === "" ? undefined : read.error && `${sentence(read.error)}.`}
            >
              <textarea
                class="code"
                rows={9}
                data-search
                spellcheck={false}
                placeholder={EXAMPLES}
                value={text}
                onInput={(event) => filter({ request: event.currentTarget.value })}
              />
            </Field>
            <div class="tools">
              <Button kind="primary" type="submit" disabled={busy || !read.request}>
                Explain
              </Button>
              <Button
                needs="operator"
                disabled={busy || !read.request}
                onClick={() => void send()}
                title="Charges the limits"
              >
                Send one for real
              </Button>
            </div>
          </form>
        </Panel>
        <Panel title="Decision">
          <div class="pad" aria-live="polite">
            {outcome.problem && <ProblemBox problem={outcome.problem} />}
            {outcome.result && <Sent result={outcome.result} />}
            {outcome.why && <Mapped why={outcome.why} />}
            {outcome.why && <ExplanationView why={outcome.why} />}
            {!outcome.problem && !outcome.why && (
              <Empty icon="try" title="Nothing asked yet">
                "Explain" charges nothing. "Send one for real" takes from the limits as a request would.
              </Empty>
            )}
          </div>
        </Panel>
      </div>
    </>
  );
}

function attempt(text: string, domain: string): { request?: PastedRequest; error?: string } {
  try {
    return { request: parsePasted(text, domain) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function Sent({ result }: { result: TryResult }) {
  return (
    <div class="sent">
      <p class="outcome">
        <Badge tone={result.status < 400 ? "allowed" : "denied"}>{result.status}</Badge> The request was{" "}
        {result.status < 400 ? "allowed and charged" : "denied; nothing was charged"}. Below is what the next
        one would find.
      </p>
      <dl class="facts small">
        {Object.entries(result.headers).map(([name, value]) => (
          <div key={name} class="fact">
            <dt>
              <code>{name}</code>
            </dt>
            <dd>
              <code>
                <KeyText text={value} />
              </code>
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Mapped({ why }: { why: Why }) {
  if (!why.mapped) return null;
  const texts = why.mapped.map((descriptor) =>
    descriptor.entries.map((entry) => `${entry.key}=${entry.value}`).join("/"),
  );
  return (
    <p class="muted">
      The headers map to{" "}
      {texts.map((text, index) => (
        <code key={index}>
          <KeyText text={text} />{" "}
        </code>
      ))}
    </p>
  );
}
