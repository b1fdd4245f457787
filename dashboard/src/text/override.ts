import type { Entry, Override, QuotaItem } from "../api/types.ts";

/** Returns the descriptor of an override for a key: its entries without the tenant's, as the quota API writes them. */
export function overrideDescriptor(entries: Entry[], tenantKey: string | null): string {
  const at = entries.findIndex((entry) => entry.key === tenantKey);
  const rest = entries.filter((_, index) => index !== at);
  if (rest.length === 0) return "default";
  return rest.map(({ key, value }) => `${escaped(key, /[\\|:]/g)}:${escaped(value, /[\\|]/g)}`).join("|");
}

function escaped(text: string, special: RegExp): string {
  return text.replace(special, (character) => `\\${character}`);
}

/** What the quota API takes: an override without what it adds in responses. */
export type OverrideDraft = Partial<Omit<Override, "in_effect">>;

/**
 * Returns the overrides of a tenant with a new one. Those of the same limit that would overlap it are left out, because
 * the API accepts no two for the same time; those that have ended stay, as history.
 */
export function withOverride(tenant: QuotaItem | null, added: OverrideDraft, now: number): OverrideDraft[] {
  const kept = (tenant?.overrides ?? []).filter((existing) => !replaces(added, existing, now));
  return [...kept.map(draftOf), added];
}

/** Returns an override as the quota API takes it. */
export function draftOf({ in_effect: _, ...draft }: Override): OverrideDraft {
  return draft;
}

function replaces(added: OverrideDraft, existing: Override, now: number): boolean {
  const ended = existing.expires_at !== null && Date.parse(existing.expires_at) <= now;
  const same = (added.descriptor ?? "default") === existing.descriptor;
  const domain = !existing.domain || !added.domain || existing.domain === added.domain;
  const limit = !existing.limit || !added.limit || existing.limit === added.limit;
  const later = existing.effective_at ? Date.parse(existing.effective_at) : Number.NEGATIVE_INFINITY;
  const until = added.expires_at ? Date.parse(added.expires_at) : Number.POSITIVE_INFINITY;
  return !ended && same && domain && limit && later < until;
}

/** Returns a duration of whole days in days: nobody knows how long 8760h are. */
function inDays(duration: string): string {
  const hours = Number(/^(\d+)h$/.exec(duration)?.[1]);
  return hours > 24 && hours % 24 === 0 ? `${hours / 24} days` : duration;
}

/** Returns the numbers of an override in words. */
export function overrideText(override: OverrideDraft): string {
  if (override.unlimited) return "unlimited";
  if (override.requests_per_unit === 0) return "blocked";
  const window = override.unit ?? (override.duration && inDays(override.duration));
  const burst = override.burst ? `, burst ${override.burst}` : "";
  const algorithm = override.algorithm ? `, ${override.algorithm}` : "";
  return `${override.requests_per_unit ?? "?"}${window ? ` per ${window}` : ""}${burst}${algorithm}`;
}
