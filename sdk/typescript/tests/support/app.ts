import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

import express5 from 'express';
import express4 from 'express4';

export type App = ReturnType<typeof express5>;

/** Both majors, under which every law of the middleware holds. */
export const MAJORS: readonly (readonly [name: string, make: () => App, express: typeof express5])[] = [
  ['Express 4', () => express4(), express4],
  ['Express 5', () => express5(), express5],
];

export interface Got {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

export class Running {
  private constructor(
    private readonly server: http.Server,
    readonly url: string,
  ) {}

  static async start(app: App): Promise<Running> {
    const server = http.createServer(app);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Running(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  }

  /** The answer as it came, with nothing added or decoded. */
  get(path: string, options: http.RequestOptions & { body?: string } = {}): Promise<Got> {
    const { body, ...rest } = options;
    return new Promise((resolve, reject) => {
      const request = http.request(this.url + path, { agent: false, ...rest }, (response) => {
        const pieces: Buffer[] = [];
        response.on('data', (piece: Buffer) => pieces.push(piece));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(pieces).toString() }),
        );
      });
      request.on('error', reject);
      request.end(body);
    });
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }
}
