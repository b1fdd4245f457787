import type { Service } from "./service.ts";

/** Sends requests until it is stopped, a few at a time. */
export class Traffic {
  private running = true;
  private readonly done: Promise<void>;

  constructor(service: Service, domain: string, descriptors: Record<string, string>[]) {
    this.done = this.run(service, domain, descriptors);
  }

  private async run(service: Service, domain: string, descriptors: Record<string, string>[]): Promise<void> {
    for (let index = 0; this.running; index += 1) {
      const descriptor = descriptors[index % descriptors.length] as Record<string, string>;
      // What a request gets is the business of the test that watches the page.
      await service.check(domain, descriptor).catch(() => 0);
      await new Promise((done) => setTimeout(done, 10));
    }
  }

  async stop(): Promise<void> {
    this.running = false;
    await this.done;
  }
}
