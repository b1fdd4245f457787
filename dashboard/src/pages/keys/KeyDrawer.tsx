import { useState } from "preact/hooks";

import { get, post } from "../../api/client.ts";
import { useDenials } from "../../api/reads.ts";
import type { Denial, TopKey, TopList, Why } from "../../api/types.ts";
import { useResource } from "../../state/resource.ts";
import { formatRoute } from "../../state/route.ts";
import { count } from "../../text/format.ts";
import type { KeyIdentity } from "../../text/key.ts";
import { Button } from "../../ui/basics.tsx";
import { Dialog } from "../../ui/Dialog.tsx";
import { CounterKey, KeyText } from "../../ui/KeyText.tsx";
import { Empty, Loading, Shown } from "../../ui/states.tsx";
import type { OverrideTarget } from "../tenants/OverrideDialog.tsx";
import { ExplanationView } from "../try/ExplanationView.tsx";
import { DenialHistory } from "./DenialHistory.tsx";
import { DenialTable } from "./DenialTable.tsx";
import { targetOf } from "./Keys.tsx";
import { NO_TENANT } from "./TopTable.tsx";

const WINDOWS = ["1m", "10m", "60m"] as const;
const LISTED = 200;
type Counts = Record<"denied" | "active", (number | null)[]>;

/** All about one key: its limits now, its history, its last denials, and why. */
export function KeyDrawer(props: {
  fingerprint: string;
  listed: TopKey | undefined;
  identified: (key: { domain: string; rule: string; key: string | null }) => KeyIdentity;
  onOverride: (target: OverrideTarget | null) => void;
  onClose: () => void;
}) {
  const { fingerprint } = props;
  const denials = useDenials({ fingerprint, limit: 100 });
  const counts = useResource(`counts ${fingerprint}`, (signal) => readCounts(fingerprint, signal), {
    everyMs: 10_000,
  });
  const known = props.listed ?? denials.data?.[0] ?? counts.data?.key;
  const identity = known && props.identified(known);
  const limit = denials.data?.[0]?.limit;
  const [asked, setAsked] = useState<Denial | null>(null);
  return (
    <Dialog
      title={known ? <CounterKey value={known.key} fingerprint={fingerprint} copy most={200} /> : "Key"}
      onClose={props.onClose}
      side
    >
      {known && identity && (
        <div class="drawer-facts">
          <span>
            Rule{" "}
            <a href={formatRoute("rules", [known.domain, known.rule])}>
              <KeyText text={known.rule} />
            </a>{" "}
            <span class="muted">in {known.domain}</span>
          </span>
          {identity.tenant !== null && (
            <span>
              Tenant{" "}
              <a href={formatRoute("tenants", [identity.tenant])}>
                <KeyText text={identity.tenant} />
              </a>
            </span>
          )}
          <Button
            kind="primary"
            small
            needs="operator"
            disabled={identity.tenant === null}
            title={identity.tenant === null ? NO_TENANT : undefined}
            onClick={() => props.onOverride(targetOf(identity, limit))}
          >
            Override
          </Button>
        </div>
      )}
      <h3>Requests and denials</h3>
      <Shown resource={counts} rows={2}>
        {(data) => <CountTable counts={data} />}
      </Shown>
      <h3>Limits now</h3>
      {identity ? (
        identity.entries ? (
          <LimitsNow identity={identity} />
        ) : (
          <p class="muted">The rule hides its keys, or is gone.</p>
        )
      ) : (
        <Loading rows={2} />
      )}
      <h3>Remembered denials, last hour</h3>
      <Shown resource={denials}>
        {(list) =>
          list.length === 0 ? (
            <Empty icon="check" title="No denial of this key is remembered" />
          ) : (
            <>
              <DenialHistory denials={list} />
              <DenialTable denials={list.slice(0, 20)} onWhy={setAsked} />
            </>
          )
        }
      </Shown>
      {asked && <WhyDialog denial={asked} onClose={() => setAsked(null)} />}
    </Dialog>
  );
}

/** The lists of the node have a bound; a key that is in none of them counts as 0. */
async function readCounts(
  fingerprint: string,
  signal: AbortSignal,
): Promise<Counts & { key: TopKey | undefined }> {
  const read = async (by: string, window: string) => {
    const list = await get<TopList>("top", { by, window, limit: LISTED }, signal);
    return list.keys.find((key) => key.fingerprint === fingerprint);
  };
  const of = (by: string) => Promise.all(WINDOWS.map((window) => read(by, window)));
  const [denied, active] = await Promise.all([of("denied"), of("active")]);
  const counts = (keys: (TopKey | undefined)[]) => keys.map((key) => key?.count ?? null);
  return { denied: counts(denied), active: counts(active), key: [...denied, ...active].find(Boolean) };
}

function CountTable({ counts }: { counts: Counts }) {
  const row = (name: string, values: (number | null)[]) => (
    <tr>
      <th scope="row">{name}</th>
      {values.map((value, index) => (
        <td key={index} class="number">
          {value === null ? "0" : count(value)}
        </td>
      ))}
    </tr>
  );
  return (
    <table class="table">
      <thead>
        <tr>
          <th scope="col">Last</th>
          <th scope="col" class="number">
            1 min
          </th>
          <th scope="col" class="number">
            10 min
          </th>
          <th scope="col" class="number">
            1 hour
          </th>
        </tr>
      </thead>
      <tbody>
        {row("Denied", counts.denied)}
        {row("Requests", counts.active)}
      </tbody>
    </table>
  );
}

function LimitsNow({ identity }: { identity: KeyIdentity }) {
  const body = { domain: identity.domain, descriptors: [{ entries: identity.entries ?? [] }] };
  const load = () => post<Why>("why", body);
  const why = useResource(`limits ${JSON.stringify(body)}`, load, { everyMs: 3_000, onChange: true });
  return (
    <Shown resource={why} rows={2}>
      {(data) => <ExplanationView why={data} brief />}
    </Shown>
  );
}

function WhyDialog({ denial, onClose }: { denial: Denial; onClose: () => void }) {
  const why = useResource(`why ${denial.id}`, () => post<Why>("why", { denial: denial.id }));
  return (
    <Dialog title="Why it was denied" onClose={onClose} wide>
      <Shown resource={why}>{(data) => <ExplanationView why={data} />}</Shown>
    </Dialog>
  );
}
