/** How long anything may take before a test gives up: far more than it ever does. */
const PATIENCE_MS = 30_000;

/** Looks again and again until something holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, patienceMs = PATIENCE_MS): Promise<void> {
  for (const started = Date.now(); Date.now() - started < patienceMs; ) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`gave up waiting until ${what}`);
}

/** A logger that keeps what it is told. */
export class Told {
  readonly lines: string[] = [];

  warn(line: string): void {
    this.lines.push(line);
  }

  error(line: string): void {
    this.lines.push(line);
  }
}
