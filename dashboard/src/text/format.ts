/** Numbers, durations and times as text. Every function accepts what is missing, and returns a dash for it. */

const DASH = "–";

type Missing = null | undefined;

/** 1234567 as `1.23M`; below 10,000 the whole number with separators. */
export function count(value: number | Missing): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return DASH;
  const size = Math.abs(value);
  if (size < 100 && !Number.isInteger(value)) return trimmed(value, size < 10 ? 2 : 1);
  if (size < 10_000) return grouped(Math.round(value));
  for (const [unit, suffix] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (size >= unit) return `${trimmed(value / unit, size / unit < 100 ? 1 : 0)}${suffix}`;
  }
  return String(value);
}

/** The exact number with separators. */
export function exact(value: number | Missing): string {
  return value === null || value === undefined ? DASH : grouped(value);
}

export function perSecond(value: number | Missing): string {
  return value === null || value === undefined ? DASH : `${count(value)}/s`;
}

export function micros(value: number | Missing): string {
  if (value === null || value === undefined) return DASH;
  if (value < 1_000) return `${trimmed(value, 0)} µs`;
  if (value < 1_000_000) return `${trimmed(value / 1_000, value < 10_000 ? 2 : 1)} ms`;
  if (value < 60_000_000) return `${trimmed(value / 1_000_000, 2)} s`;
  return seconds(value / 1_000_000);
}

export function millis(value: number | Missing): string {
  if (value === null || value === undefined) return DASH;
  return value < 1 ? "<1 ms" : micros(value * 1_000);
}

/** 3725 as `1 h 2 m`: the two largest units. */
export function seconds(value: number | Missing): string {
  if (value === null || value === undefined) return DASH;
  const units = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "m"],
    [1, "s"],
  ] as const;
  let rest = Math.max(0, Math.round(value));
  const parts: string[] = [];
  for (const [unit, name] of units) {
    const whole = Math.floor(rest / unit);
    rest -= whole * unit;
    if (whole > 0 || (unit === 1 && parts.length === 0)) parts.push(`${whole} ${name}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export function bytes(value: number | Missing): string {
  if (value === null || value === undefined) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${trimmed(size, size < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}

export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return DASH;
  const value = (part / whole) * 100;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${trimmed(value, value < 10 ? 1 : 0)} %`;
}

/** How long ago a time is, or in how long it comes. */
export function ago(time: string | Missing, now: number = Date.now()): string {
  if (!time) return DASH;
  const at = Date.parse(time);
  if (Number.isNaN(at)) return time;
  const distance = Math.round((now - at) / 1000);
  if (Math.abs(distance) < 2) return "now";
  return distance > 0 ? `${coarse(distance)} ago` : `in ${coarse(-distance)}`;
}

/** A distance to the minute below ten hours, to the hour below ten days, else to the day. */
function coarse(distance: number): string {
  const unit = distance < 60 ? 1 : distance < 36_000 ? 60 : distance < 864_000 ? 3_600 : 86_400;
  return seconds(Math.floor(distance / unit) * unit);
}

/** `18 Nov 2026, 14:03:12` in the reader's time zone. */
export function dateTime(time: string | number | Missing): string {
  if (time === null || time === undefined) return DASH;
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return `${day}, ${clock(date.getTime())}`;
}

/** `14:03:12` in the reader's time zone. */
export function clock(time: string | number | Missing): string {
  if (time === null || time === undefined) return DASH;
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function trimmed(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}

function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
