import type { OverrideDraft } from "../../text/override.ts";

export const UNITS = ["second", "minute", "hour", "day", "week", "month", "year"];

export const KINDS = [
  ["limited", "Limited"],
  ["unlimited", "Unlimited"],
  ["blocked", "Blocked"],
] as const;

export const ENDS = [
  ["1h", "For 1 hour"],
  ["1d", "1 day"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["never", "For good"],
] as const;

const HOUR_MS = 3_600_000;
const LENGTHS: Record<string, number> = {
  "1h": HOUR_MS,
  "1d": 24 * HOUR_MS,
  "7d": 168 * HOUR_MS,
  "30d": 720 * HOUR_MS,
};

/** What the reader has entered; numbers are text until they are sent. */
export interface OverrideForm {
  domain: string;
  descriptor: string;
  limit: string;
  kind: (typeof KINDS)[number][0];
  requests: string;
  unit: string;
  burst: string;
  end: (typeof ENDS)[number][0];
}

/** Returns the override, or null while something is missing. */
export function draftFrom(form: OverrideForm, now: number): OverrideDraft | null {
  const draft: OverrideDraft = { descriptor: form.descriptor.trim() || "default" };
  if (form.domain) draft.domain = form.domain;
  if (form.limit.trim()) draft.limit = form.limit.trim();
  const length = LENGTHS[form.end];
  if (length !== undefined) draft.expires_at = new Date(now + length).toISOString();
  if (form.kind === "unlimited") return { ...draft, unlimited: true };
  const requests = form.kind === "blocked" ? 0 : whole(form.requests);
  const unit = form.unit.trim();
  if (requests === null || !unit) return null;
  draft.requests_per_unit = requests;
  if (UNITS.includes(unit)) draft.unit = unit;
  else draft.duration = unit;
  const burst = whole(form.burst);
  if (burst !== null && form.kind === "limited") draft.burst = burst;
  return draft;
}

function whole(text: string): number | null {
  const value = Number(text);
  return text.trim() !== "" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Returns the numbers in a limit's text, such as `token_bucket, 100 per minute, burst 20`. */
export function numbersOf(text: string): { requests?: number; unit?: string; burst?: number } {
  const rate = /(\d+) per ([^,]+)/.exec(text);
  const burst = /token_bucket|leaky_bucket/.test(text) ? /burst (\d+)/.exec(text) : null;
  return {
    requests: rate ? Number(rate[1]) : undefined,
    unit: rate?.[2]?.trim(),
    burst: burst ? Number(burst[1]) : undefined,
  };
}
