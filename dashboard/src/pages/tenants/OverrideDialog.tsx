import { useState } from "preact/hooks";

import { post } from "../../api/client.ts";
import { type ApiProblem, problemOf } from "../../api/problem.ts";
import { useDomains } from "../../api/reads.ts";
import type { DomainListing, Entry, ExplainedLimit, Why } from "../../api/types.ts";
import { useResource } from "../../state/resource.ts";
import { overrideDescriptor, overrideText } from "../../text/override.ts";
import { Button, Choice, Field } from "../../ui/basics.tsx";
import { Dialog } from "../../ui/Dialog.tsx";
import { KeyText } from "../../ui/KeyText.tsx";
import { Loading, ProblemBox } from "../../ui/states.tsx";
import { toast } from "../../ui/Toasts.tsx";
import { draftFrom, ENDS, KINDS, numbersOf, type OverrideForm, UNITS } from "./override-form.ts";
import { addOverride } from "./tenant.ts";

/** What an override is made from: a row of the top list, or a tenant. */
export interface OverrideTarget {
  tenant: string;
  domain?: string;
  rule?: string;
  entries: Entry[] | null;
  limit?: string;
}

/** Gives a tenant a limit of its own. */
export function OverrideDialog({
  target,
  onClose,
  onDone,
}: {
  target: OverrideTarget;
  onClose: () => void;
  onDone?: () => void;
}) {
  const domains = useDomains();
  const entries = target.entries;
  const why = useResource(entries && target.domain ? `override ${JSON.stringify(target)}` : null, () =>
    post<Why>("why", { domain: target.domain, descriptors: [{ entries }] }),
  );
  const title = (
    <>
      Override for <KeyText text={target.tenant} most={48} />
    </>
  );
  const ready = domains.data && (why.data || why.problem || !entries);
  return (
    <Dialog title={title} onClose={onClose}>
      {ready ? (
        <OverrideFormView
          target={target}
          domains={domains.data ?? []}
          limits={why.data?.explanation.descriptors.flatMap((descriptor) => descriptor.limits) ?? []}
          onClose={onClose}
          onDone={onDone}
        />
      ) : (
        <Loading />
      )}
    </Dialog>
  );
}

function initialForm(
  target: OverrideTarget,
  domains: DomainListing[],
  limits: ExplainedLimit[],
): OverrideForm {
  const tenantKey = domains.find((domain) => domain.domain === target.domain)?.tenant ?? null;
  const own = limits.filter((limit) => !target.rule || limit.rule === target.rule);
  const limit =
    own.find((limit) => limit.name === target.limit) ?? own.find((limit) => limit.decides) ?? own[0];
  const numbers = numbersOf(limit?.limit ?? "");
  return {
    domain: target.domain ?? "",
    descriptor: target.entries ? overrideDescriptor(target.entries, tenantKey) : "default",
    limit: limit?.name ?? target.limit ?? "",
    kind: "limited",
    requests: numbers.requests ? String(numbers.requests * 10) : "",
    unit: numbers.unit || "minute",
    burst: numbers.burst ? String(numbers.burst * 10) : "",
    end: "1d",
  };
}

function OverrideFormView(props: {
  target: OverrideTarget;
  domains: DomainListing[];
  limits: ExplainedLimit[];
  onClose: () => void;
  onDone?: () => void;
}) {
  const { target } = props;
  const [form, setForm] = useState(() => initialForm(target, props.domains, props.limits));
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const [busy, setBusy] = useState(false);
  const set = (changes: Partial<OverrideForm>) => setForm({ ...form, ...changes });
  const draft = draftFrom(form, Date.now());
  const errorOf = (name: string) => problem?.errors.find((error) => error.field.endsWith(`.${name}`))?.reason;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!draft) return;
    setBusy(true);
    try {
      await addOverride(target.tenant, draft);
      toast(
        `${target.tenant}: ${overrideText(draft)}. In force now on this node, on all within two seconds.`,
      );
      props.onDone?.();
      props.onClose();
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return (
    <form class="form" onSubmit={submit}>
      <div class="form-row">
        <Field label="Domain" error={errorOf("domain")}>
          <select value={form.domain} onChange={(event) => set({ domain: event.currentTarget.value })}>
            <option value="">Every domain</option>
            {props.domains
              .filter((domain) => domain.tenant !== null)
              .map(({ domain }) => (
                <option key={domain} value={domain}>
                  {domain}
                </option>
              ))}
          </select>
        </Field>
        <Field label="Limit" hint="Empty: the one with the same unit" error={errorOf("limit")}>
          <input
            list="override-limits"
            value={form.limit}
            onInput={(event) => set({ limit: event.currentTarget.value })}
          />
          <datalist id="override-limits">
            {[...new Set(props.limits.map((limit) => limit.name))].map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </Field>
      </div>
      <Field
        label="Descriptor"
        hint='"default" is the tenant’s own rule; else key:value'
        error={errorOf("descriptor")}
      >
        <input
          class="code"
          value={form.descriptor}
          onInput={(event) => set({ descriptor: event.currentTarget.value })}
        />
      </Field>
      <Choice label="Kind of limit" value={form.kind} options={KINDS} onChoose={(kind) => set({ kind })} />
      {form.kind === "limited" && (
        <div class="form-row">
          <Field label="Requests" error={errorOf("requests_per_unit")}>
            <input
              type="number"
              name="requests"
              min="1"
              step="1"
              required
              value={form.requests}
              onInput={(event) => set({ requests: event.currentTarget.value })}
            />
          </Field>
          <Field label="Per" error={errorOf("unit") ?? errorOf("duration")}>
            <input
              list="override-units"
              required
              value={form.unit}
              onInput={(event) => set({ unit: event.currentTarget.value })}
            />
            <datalist id="override-units">
              {UNITS.map((unit) => (
                <option key={unit} value={unit} />
              ))}
            </datalist>
          </Field>
          <Field label="Burst" hint="For buckets" error={errorOf("burst")}>
            <input
              type="number"
              min="1"
              step="1"
              value={form.burst}
              onInput={(event) => set({ burst: event.currentTarget.value })}
            />
          </Field>
        </div>
      )}
      <Choice label="Ends" value={form.end} options={ENDS} onChoose={(end) => set({ end })} />
      {problem && <ProblemBox problem={problem} />}
      <footer class="dialog-foot">
        <Button onClick={props.onClose}>Cancel</Button>
        <Button kind="primary" type="submit" needs="operator" disabled={busy || !draft}>
          Apply the override
        </Button>
      </footer>
    </form>
  );
}
