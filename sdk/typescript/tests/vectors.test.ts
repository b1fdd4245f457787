/** What every language must agree on. */
import { describe, expect, test } from 'vitest';

import { Tidegate } from '../src/client.js';
import { ClientIpFinder } from '../src/client-ip.js';
import { delayMs, isDenial, learn } from '../src/learn.js';
import { parseLimits, type Limit } from '../src/limits.js';
import { sanitizeValue } from '../src/value.js';
import { addHeaders, rateLimit, sendDenial } from '../src/express.js';
import { MAJORS, Running } from './support/app.js';
import { closedAfterEach } from './support/open.js';
import { forEach, Stub, type Answering } from './support/stub.js';
import { vectors } from './support/vectors.js';

interface ClientIpCase {
  name: string;
  peer: string;
  trusted_proxies: string[];
  header: 'x-forwarded-for' | 'forwarded';
  ipv6_prefix: number;
  headers: [string, string][];
  expect: { ip: string; key: string };
}

describe('client_ip.json', () => {
  test.each(vectors<ClientIpCase>('client_ip'))('$name', (one) => {
    const finder = new ClientIpFinder({
      trustedProxies: one.trusted_proxies,
      header: one.header,
      ipv6Prefix: one.ipv6_prefix,
    });
    expect(finder.find(one.peer, one.headers)).toEqual(one.expect);
  });
});

describe('client_ip_hops.json', () => {
  test.each(vectors<Omit<ClientIpCase, 'trusted_proxies'> & { trusted_hops: number }>('client_ip_hops'))('$name', (one) => {
    const finder = new ClientIpFinder({ trustedProxies: one.trusted_hops, header: one.header, ipv6Prefix: one.ipv6_prefix });
    expect(finder.find(one.peer, one.headers)).toEqual(one.expect);
  });
});

describe('keys.json', () => {
  test.each(vectors<{ name: string; text: string; expect: string }>('keys'))('$name', (one) => {
    expect(sanitizeValue(one.text)).toBe(one.expect);
  });

  test('half of a surrogate pair is U+FFFD, also in what is shortened', () => {
    expect(sanitizeValue('a\ud800b\udc00')).toBe('a\ufffdb\ufffd');
    expect(sanitizeValue('\ud83d\ude00')).toBe('\ud83d\ude00');
    expect(sanitizeValue('\ud800'.repeat(300))).toBe(sanitizeValue('\ufffd'.repeat(300)));
  });
});

describe('limits.json', () => {
  test.each(vectors<{ text: string; expect: Limit[] | null }>('limits'))('$text', (one) => {
    if (one.expect === null) expect(() => parseLimits(one.text)).toThrow('is not a valid list of limits');
    else expect(parseLimits(one.text)).toEqual(one.expect);
  });
});

interface PacingCase {
  name: string;
  status: number;
  now_s: number;
  headers: [string, string][];
  expect: {
    limit: number | null;
    remaining: number | null;
    reset_after_s: number | null;
    retry_after_s: number | null;
    policies: { name: string; limit: number | null; window_s: number | null; remaining: number | null; reset_after_s: number | null }[];
  };
  delays: { elapsed_ms: number; delay_ms: number }[];
  denied?: boolean;
}

describe('pacing.json', () => {
  test.each(vectors<PacingCase>('pacing'))('$name', (one) => {
    const learned = learn(one.status, one.headers, one.now_s * 1_000);
    expect({
      limit: learned.limit,
      remaining: learned.remaining,
      reset_after_s: learned.resetAfterS,
      retry_after_s: learned.retryAfterS,
      policies: learned.policies.map(({ name, limit, windowS, remaining, resetAfterS }) => ({
        name,
        limit,
        window_s: windowS,
        remaining,
        reset_after_s: resetAfterS,
      })),
    }).toEqual(one.expect);
    if (one.denied !== undefined) expect(isDenial(one.status, learned)).toBe(one.denied);
    for (const { elapsed_ms: elapsed, delay_ms: delay } of one.delays) expect(delayMs(learned, elapsed)).toBe(delay);
  });
});

interface RenderingCase {
  name: string;
  ask: 'check' | 'acquire';
  expect: { status: number; content_type: string; headers: [string, string][]; body: string; problem?: string };
}

/** As the service answers: whoever accepts a problem, or asks in a batch, gets it in any case. */
function rendering({ expect }: RenderingCase): Answering {
  const { status, content_type: contentType, body } = expect;
  const headers = Object.fromEntries(expect.headers);
  const forPrograms = forEach({ status, headers, body: expect.problem ?? body });
  return (asked) => {
    const program = asked.body.startsWith('[') || asked.headers.accept?.includes('application/problem+json');
    return program ? forPrograms(asked) : { status, headers: { 'content-type': contentType, ...headers }, body };
  };
}

/** What an answer has anyway. */
const OF_ANY_ANSWER = new Set(['date', 'connection', 'content-length', 'content-type', 'x-powered-by', 'etag', 'keep-alive']);

describe.each(MAJORS)('rendering.json under %s', (_, make) => {
  const open = closedAfterEach();

  /** An app behind a service that answers with what the case expects. */
  async function running(one: RenderingCase): Promise<Running> {
    const stub = await Stub.start(rendering(one));
    const client = new Tidegate({ url: stub.url, deadlineMs: 20_000 });
    const app = make();
    if (one.ask === 'check') {
      app.use(rateLimit({ client, domain: 'api', descriptors: [{ user: 'ann' }], validate: false }));
    } else {
      app.use((_req, res, next) => {
        void client.acquire({ descriptor: { user: 'ann' } }).then(({ decision }) => {
          if (decision && !decision.allowed) sendDenial(res, decision);
          else {
            if (decision) addHeaders(res, decision);
            next();
          }
        });
      });
    }
    app.get('/', (_req, res) => void res.send('hello'));
    const server = await Running.start(app);
    open.push(stub, client, server);
    return server;
  }

  test.each(vectors<RenderingCase>('rendering'))('$name', async (one) => {
    const server = await running(one);
    // Alone, and then in batches.
    const several = await Promise.all(Array.from({ length: 8 }, () => server.get('/')));
    for (const got of [await server.get('/'), ...several]) {
      const about = Object.entries(got.headers).filter(([name]) => !OF_ANY_ANSWER.has(name));
      expect(about).toEqual(one.expect.headers);
      if (one.expect.status === 200) {
        expect([got.status, got.body]).toEqual([200, 'hello']);
      } else {
        // A body of the operator's stays with the service: in an app it is the app's.
        expect([got.status, got.headers['content-type'], got.body]).toEqual([
          one.expect.status,
          'application/problem+json',
          one.expect.problem ?? one.expect.body,
        ]);
      }
    }
  });
});
