import { get, getTagged, put, segment } from "../../api/client.ts";
import type { Page, Quota, QuotaItem } from "../../api/types.ts";
import { draftOf, type OverrideDraft, withOverride } from "../../text/override.ts";

/** Returns a tenant's tier and overrides; null if nothing is stored about it. A list finds it without a failed request. */
export async function findTenant(name: string, signal?: AbortSignal): Promise<QuotaItem | null> {
  const page = await get<Page<QuotaItem>>("quotas", { q: name, limit: 1 }, signal);
  return page.items.find((item) => item.tenant === name) ?? null;
}

export async function readTenant(name: string, signal: AbortSignal): Promise<Quota | null> {
  if ((await findTenant(name, signal)) === null) return null;
  return (await getTagged<Quota>(`quotas/${segment(name)}`, {}, signal)).body;
}

/** Stores a tenant as it was read, with changes. Fails if somebody else changed it in the meantime. */
async function store(
  name: string,
  before: QuotaItem | null,
  tier: string | null,
  overrides: OverrideDraft[],
): Promise<void> {
  const etag = before ? `"${before.revision}"` : "none";
  await put(`quotas/${segment(name)}`, { tier, overrides }, etag);
}

export async function addOverride(name: string, added: OverrideDraft): Promise<void> {
  const before = await findTenant(name);
  await store(name, before, before?.tier ?? null, withOverride(before, added, Date.now()));
}

export async function removeOverride(name: string, index: number, revision: number): Promise<void> {
  const before = await findTenant(name);
  if (!before || before.revision !== revision)
    throw new Error("the tenant was changed in the meantime; look again");
  const kept = before.overrides.filter((_, at) => at !== index);
  await store(name, before, before.tier, kept.map(draftOf));
}

export async function setTier(name: string, tier: string | null): Promise<void> {
  const before = await findTenant(name);
  await store(name, before, tier, (before?.overrides ?? []).map(draftOf));
}
