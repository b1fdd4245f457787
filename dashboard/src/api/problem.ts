import type { FieldProblem } from "./types.ts";

/** A request that failed: the problem that the service described, or that there was no response. */
export class ApiProblem extends Error {
  /** The status of the response; 0 if there was none. */
  readonly status: number;
  readonly errors: FieldProblem[];

  constructor(status: number, detail: string, errors: FieldProblem[] = []) {
    super(detail);
    this.name = "ApiProblem";
    this.status = status;
    this.errors = errors;
  }

  /** Returns the problem that a response describes, whatever its body is. */
  static async of(response: Response): Promise<ApiProblem> {
    const text = await response.text().catch(() => "");
    try {
      const body = JSON.parse(text) as { detail?: unknown; title?: unknown; errors?: unknown };
      const detail = typeof body.detail === "string" ? body.detail : undefined;
      const title = typeof body.title === "string" ? body.title : undefined;
      return new ApiProblem(
        response.status,
        detail ?? title ?? statusText(response),
        fieldErrors(body.errors),
      );
    } catch {
      return new ApiProblem(response.status, statusText(response));
    }
  }

  static ofNetwork(error: unknown): ApiProblem {
    const reason = error instanceof Error ? error.message : String(error);
    return new ApiProblem(0, `the node does not respond (${reason})`);
  }
}

function statusText(response: Response): string {
  return `the node responded ${response.status} ${response.statusText}`.trim();
}

function fieldErrors(errors: unknown): FieldProblem[] {
  if (!Array.isArray(errors)) return [];
  return errors.map((error: Partial<FieldProblem> & { message?: string }) => ({
    ...error,
    field: String(error.field ?? ""),
    reason: String(error.reason ?? error.message ?? ""),
  }));
}

export function problemOf(error: unknown): ApiProblem {
  return error instanceof ApiProblem ? error : ApiProblem.ofNetwork(error);
}
