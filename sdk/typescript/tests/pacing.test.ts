/** The paced fetch, in a time that only the test moves. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { pacedFetch, PacingDeadlineError, type PacedFetch, type PacingOptions, type Retry } from '../src/pacing.js';

const START = 1_700_000_000_000;
const URL_A = 'https://api.example/items';

interface Sent {
  readonly at: number;
  readonly method: string;
  readonly body: string;
}

let sent: Sent[];
let retries: Retry[];

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  sent = [];
  retries = [];
});
afterEach(() => vi.useRealTimers());

type ServiceResponse = Response | Error | (() => Response);

/** A fetch that answers with these in order, and then with 200. */
function fetching(answers: ServiceResponse[], options: PacingOptions = {}): PacedFetch {
  return pacedFetch({
    random: () => 0,
    onRetry: (retry) => retries.push(retry),
    ...options,
    fetch: async (input, init) => {
      const request = new Request(input, { ...init, ...(init?.body ? { duplex: 'half' } : {}) } as RequestInit);
      sent.push({ at: Date.now() - START, method: request.method, body: await request.text() });
      const answer = answers.shift() ?? new Response('fine');
      if (answer instanceof Error) throw answer;
      return typeof answer === 'function' ? answer() : answer;
    },
  });
}

const said = (status: number, headers: Record<string, string> = {}): Response => new Response('body', { status, headers });
const times = (): number[] => sent.map(({ at }) => at);

/** Runs all that is due within ten minutes. */
async function finish<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  await vi.advanceTimersByTimeAsync(600_000);
  return work;
}

describe('waiting', () => {
  test('no request waits while the server reports no limits', async () => {
    const fetch = fetching([]);
    for (let count = 0; count < 3; count += 1) await finish(fetch(URL_A));
    expect(sent).toHaveLength(3);
    expect(fetch.state('api.example')).toMatchObject({ delayMs: 0, learned: { remaining: null } });
  });

  test('what is left is spread over the time until there is more', async () => {
    const fetch = fetching([said(200, { 'ratelimit-policy': '"a";q=100;w=60', ratelimit: '"a";r=3;t=30' })]);
    await fetch(URL_A);
    expect(fetch.state('api.example')).toMatchObject({ delayMs: 3_000, learned: { limit: 100, remaining: 3, resetAfterS: 30 } });
    // The answers to these say nothing, and so what was said still holds.
    await finish(Promise.all([fetch(URL_A), fetch(URL_A)]));
    expect(times()).toEqual([0, 3_000, 6_000]);
  });

  test('a reset that is near is waited for: what is left goes at once', async () => {
    const fetch = fetching([said(200, { 'ratelimit-policy': '"a";q=10;w=10', ratelimit: '"a";r=2;t=10' })]);
    await fetch(URL_A);
    const rest = [fetch(URL_A), fetch(URL_A), fetch(URL_A)];
    await finish(Promise.all(rest));
    // The third goes when one of the others was answered, as nothing else is known of it.
    expect(times()).toEqual([0, 0, 0, 0]);
  });

  test('those that wait go one after the other, in order, while nothing new is known', async () => {
    let answer = (): void => {};
    const slow = new Promise<void>((resolve) => (answer = resolve));
    const starts: [string, number][] = [];
    const told = { 'ratelimit-policy': '"a";q=100;w=60', ratelimit: '"a";r=3;t=30' };
    const fetch = pacedFetch({
      deadlineMs: 100_000,
      fetch: async (input) => {
        starts.push([String(input).slice(-1), Date.now() - START]);
        if (starts.length > 1) await slow;
        return said(200, told);
      },
    });
    await fetch(`${URL_A}/0`);
    const rest = ['1', '2', '3'].map((name) => fetch(`${URL_A}/${name}`));
    await vi.advanceTimersByTimeAsync(40_000);
    expect(starts).toEqual([['0', 0], ['1', 3_000], ['2', 6_000], ['3', 9_000]]);
    answer();
    await finish(Promise.all(rest));
  });

  test('after a pause they are not let go all at once', async () => {
    const starts: number[] = [];
    const fetch = pacedFetch({
      maxRetries: 0,
      fetch: () => {
        starts.push(Date.now() - START);
        return starts.length === 1 ? Promise.resolve(said(429, { 'retry-after': '5' })) : new Promise(() => {});
      },
    });
    await fetch(URL_A);
    for (let count = 0; count < 3; count += 1) void fetch(URL_A);
    await vi.advanceTimersByTimeAsync(10_000);
    // One goes ahead, and the others wait for what its answer tells, but not for ever.
    expect(starts).toEqual([0, 5_000, 6_000, 7_000]);
  });

  test('what was learnt ends: what was left still is, and where nothing was one goes ahead', async () => {
    const plenty = { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': '10', 'x-ratelimit-reset': '30' };
    for (const [headers, step] of [[plenty, 0], [{ 'retry-after': '5' }, 1_000]] as const) {
      const starts: number[] = [];
      const fetch = pacedFetch({
        fetch: () => {
          starts.push(Date.now());
          return starts.length === 1 ? Promise.resolve(said(200, headers)) : new Promise(() => {});
        },
      });
      await fetch(URL_A);
      await vi.advanceTimersByTimeAsync(40_000);
      const later = Date.now();
      for (let count = 0; count < 3; count += 1) void fetch(URL_A);
      await vi.advanceTimersByTimeAsync(2_000);
      expect(starts.slice(1)).toEqual([later, later + step, later + 2 * step]);
    }
  });

  /** Two requests are under way, a second apart; the first answer to come is `first`, at 1 s, and at 2 s `late`. */
  async function answered(first: Response, late: Response): Promise<PacedFetch> {
    let answer = (_: Response): void => {};
    const slow = new Promise<Response>((resolve) => (answer = resolve));
    let count = 0;
    const fetch = pacedFetch({
      maxRetries: 0,
      deadlineMs: 100_000,
      fetch: () => {
        sent.push({ at: Date.now() - START, method: 'GET', body: '' });
        count += 1;
        return count === 1 ? slow : Promise.resolve(count === 2 ? first : said(200));
      },
    });
    const pending = fetch(URL_A);
    const second = fetch(URL_A);
    await vi.advanceTimersByTimeAsync(1_000);
    await second;
    await vi.advanceTimersByTimeAsync(1_000);
    answer(late);
    await pending;
    return fetch;
  }

  const plenty = { 'ratelimit-policy': '"a";q=100;w=60', ratelimit: '"a";r=90;t=60' };
  test.each<[string, Record<string, string>, Record<string, string>]>([
    ['Retry-After, and nothing', { 'retry-after': '20' }, {}],
    ['Retry-After, and plenty', { 'retry-after': '20' }, plenty],
    ['Retry-After, and a shorter one', { 'retry-after': '20' }, { 'retry-after': '2' }],
    ['nothing left, and plenty', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '20' }, plenty],
  ])('an answer that comes late does not shorten a wait: %s', async (_, first, late) => {
    const fetch = await answered(said(200, first), said(200, late));
    expect(fetch.state('api.example')?.delayMs).toBe(19_000);
    await finish(fetch(URL_A));
    expect(times()).toEqual([0, 1_000, 21_000]);
  });

  test('waiting requests start as soon as a response reports that enough is left', async () => {
    const fetch = await answered(said(429, { 'retry-after': '5' }), said(200, plenty));
    const rest = [fetch(URL_A), fetch(URL_A), fetch(URL_A)];
    await finish(Promise.all(rest));
    expect(times().slice(2)).toEqual([6_000, 6_000, 6_000]);
  });

  test('a response makes a wait longer, and the state shows it', async () => {
    const fetch = await answered(said(200, { 'retry-after': '2' }), said(200, { 'retry-after': '20' }));
    expect(fetch.state('api.example')).toMatchObject({ delayMs: 20_000, learned: { retryAfterS: 20 } });
    await finish(fetch(URL_A));
    expect(times()).toEqual([0, 1_000, 22_000]);
  });

  test('a wait that is over is forgotten: later responses count', async () => {
    const fetch = fetching([said(200, { 'retry-after': '20' }), said(200, plenty)]);
    await fetch(URL_A);
    await finish(fetch(URL_A));
    expect(fetch.state('api.example')).toMatchObject({ delayMs: 0, learned: { remaining: 90 } });
    await Promise.all([fetch(URL_A), fetch(URL_A)]);
    expect(sent).toHaveLength(4);
  });

  test('what is known stays known when a response has no rate limit headers', async () => {
    const fetch = fetching([said(200, plenty), said(200)]);
    await fetch(URL_A);
    await fetch(URL_A);
    expect(fetch.state('api.example')?.learned.remaining).toBe(90);
  });

  test('hosts do not wait for each other, unless they share a key', async () => {
    const answers = (): ServiceResponse[] => [said(200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '20' })];
    const apart = fetching(answers());
    await apart(URL_A);
    await apart('https://other.example/');
    expect(times()).toEqual([0, 0]);
    sent = [];
    const together = fetching(answers(), { key: () => 'all' });
    await together(URL_A);
    await finish(together('https://other.example/'));
    expect(times()).toEqual([0, 20_000]);
    expect(together.state('all')).toBeDefined();
  });

  test('a wait that would end after the deadline is an error at once', async () => {
    const fetch = fetching([said(200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '31' })]);
    await fetch(URL_A);
    await expect(fetch(URL_A)).rejects.toThrow(PacingDeadlineError);
    expect(sent).toHaveLength(1);
  });

  test('a wait may be longer than a timer can be', async () => {
    const fetch = fetching([said(200, { 'retry-after': String(40 * 86_400) })], { deadlineMs: Infinity });
    await fetch(URL_A);
    void fetch(URL_A);
    await vi.advanceTimersByTimeAsync(39 * 86_400_000);
    expect(sent).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(2 * 86_400_000);
    expect(sent).toHaveLength(2);
  });

  test('a request that is aborted while it waits does not block the others', async () => {
    const fetch = fetching([said(200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '20' })]);
    await fetch(URL_A);
    const abort = new AbortController();
    const gone = fetch(URL_A, { signal: abort.signal });
    const other = fetch(URL_A);
    abort.abort(new Error('enough'));
    await expect(gone).rejects.toThrow('enough');
    await expect(fetch(URL_A, { signal: abort.signal })).rejects.toThrow('enough');
    await finish(other);
    expect(times()).toEqual([0, 20_000]);
  });
});

describe('retrying', () => {
  test('waits for Retry-After with jitter', async () => {
    const fetch = fetching([said(429, { 'retry-after': '7' })], { random: () => 0.5 });
    expect((await finish(fetch(URL_A))).status).toBe(200);
    expect(times()).toEqual([0, 7_350]);
    expect(retries).toMatchObject([{ attempt: 1, status: 429, waitMs: 7_350 }]);
  });

  test.each([
    [1, 1_099], // a tenth would be less than 100 ms in all
    [20, 21_998],
  ])('jitter of %d s is at most a tenth and at least 100 ms', async (seconds, at) => {
    const fetch = fetching([said(429, { 'retry-after': String(seconds) })], { random: () => 0.9999, deadlineMs: 100_000 });
    await finish(fetch(URL_A));
    expect(Math.abs((times()[1] ?? 0) - at)).toBeLessThanOrEqual(2);
  });

  test('jitter is at most 5 s', async () => {
    const fetch = fetching([said(429, { 'retry-after': '100' })], { random: () => 0.9999, deadlineMs: 200_000 });
    await finish(fetch(URL_A));
    expect(times()[1]).toBeLessThanOrEqual(105_000);
    expect(times()[1]).toBeGreaterThan(104_900);
  });

  test('a denial is retried whatever the method: it did nothing', async () => {
    const fetch = fetching([said(429, { 'retry-after': '1' }), said(503, { 'retry-after': '1' })]);
    await finish(fetch(URL_A, { method: 'POST', body: 'order' }));
    expect(sent.map(({ method, body }) => [method, body])).toEqual([['POST', 'order'], ['POST', 'order'], ['POST', 'order']]);
  });

  test("GitHub's denial is one: 403 with nothing left, or with Retry-After", async () => {
    const fetch = fetching([said(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(START / 1_000 + 7) }), said(403, { 'retry-after': '1.5' }), said(403)]);
    const got = await finish(fetch(URL_A, { method: 'POST', body: 'order' }));
    // The last is a denial of another kind: who asks may not.
    expect([got.status, times()]).toEqual([403, [0, 7_000, 8_500]]);
  });

  test('a wait in milliseconds is kept to the millisecond', async () => {
    const fetch = fetching([said(429, { 'retry-after-ms': '250', 'retry-after': '1' })]);
    expect((await finish(fetch(URL_A))).status).toBe(200);
    expect(times()).toEqual([0, 250]);
  });

  test.each([502, 503, 504])('%d is retried if the method is idempotent', async (status) => {
    const got = await finish(fetching([said(status)])(URL_A));
    expect([got.status, sent.length]).toEqual([200, 2]);
  });

  test.each([502, 503, 504])('%d is not, if it is not', async (status) => {
    const got = await finish(fetching([said(status)])(URL_A, { method: 'POST', body: 'order' }));
    expect([got.status, sent.length]).toEqual([status, 1]);
  });

  test('a key makes any method idempotent', async () => {
    await finish(fetching([said(502), new TypeError('fetch failed')])(URL_A, { method: 'POST', headers: { 'Idempotency-Key': 'k1' } }));
    expect(sent).toHaveLength(3);
  });

  test.each([200, 201, 304, 400, 401, 404, 500])('%d is an answer', async (status) => {
    const answer = () => new Response(null, { status });
    expect((await finish(fetching([answer])(URL_A))).status).toBe(status);
    expect(sent).toHaveLength(1);
  });

  test('connection errors are retried with a backoff that doubles', async () => {
    const fetch = fetching(Array.from({ length: 5 }, () => new TypeError('fetch failed')), { random: () => 0.9999, maxRetries: 5 });
    await finish(fetch(URL_A));
    const waits = times().slice(1).map((at, index) => Math.round((at - (times()[index] ?? 0)) / 100));
    expect(waits).toEqual([1, 2, 4, 8, 16]);
  });

  test('a connection error of what is not idempotent is raised', async () => {
    await expect(finish(fetching([new TypeError('fetch failed')])(URL_A, { method: 'POST' }))).rejects.toThrow('fetch failed');
    expect(sent).toHaveLength(1);
  });

  test('gives up after so many, with the last answer', async () => {
    const fetch = fetching(Array.from({ length: 9 }, () => said(429, { 'retry-after': '1' })));
    const got = await finish(fetch(URL_A));
    expect([got.status, await got.text(), sent.length]).toEqual([429, 'body', 4]);
  });

  test('gives up at once if the wait would end after the deadline', async () => {
    const got = await fetching([said(429, { 'retry-after': '31' })])(URL_A);
    expect([got.status, sent.length, Date.now() - START]).toEqual([429, 1, 0]);
  });

  test('the answer that was not good enough is returned if the way is closed meanwhile', async () => {
    const fetch = fetching([said(503), said(200, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '60' })], { random: () => 0.9999 });
    const first = fetch(URL_A);
    await vi.advanceTimersByTimeAsync(1);
    await fetch(URL_A);
    const got = await finish(first);
    expect([got.status, await got.text()]).toEqual([503, 'body']);
  });

  test('a body that is gone once it is sent is not sent again', async () => {
    const body = new ReadableStream({
      start(stream) {
        stream.enqueue(new TextEncoder().encode('order'));
        stream.close();
      },
    });
    const got = await finish(fetching([said(429, { 'retry-after': '1' })])(URL_A, { method: 'PUT', body }));
    expect([got.status, sent.length]).toEqual([429, 1]);
  });

  /** A denial of which the connection breaks before anybody reads its body. */
  const broken = (): Response => {
    const body = new ReadableStream({ start: (stream) => stream.error(new TypeError('terminated')) });
    return new Response(body, { status: 429, headers: { 'retry-after': '1' } });
  };
  /** One whose body is never done with being cancelled. */
  const stuck = (): Response => new Response(new ReadableStream({ cancel: () => new Promise(() => {}) }), { status: 429, headers: { 'retry-after': '1' } });
  /** One of a fetch that is not of the platform, and so has a body of another kind. */
  const foreign = (): Response => ({ status: 429, headers: new Headers({ 'retry-after': '1' }), body: {} }) as unknown as Response;

  describe.each([['has failed', broken], ['cannot be cancelled', stuck], ['is no stream', foreign]])('a denial whose body %s', (_name, denial) => {
    test('is retried', async () => {
      const got = await finish(fetching([denial])(URL_A));
      expect([got.status, await got.text(), times()]).toEqual([200, 'fine', [0, 1_000]]);
    });

    test('holds back no later request', async () => {
      const fetch = fetching([denial]);
      fetch(URL_A).catch(() => {});
      await vi.advanceTimersByTimeAsync(1_000);
      sent = [];
      // A turn that nobody ends would make each of these wait for a second.
      for (let count = 0; count < 3; count += 1) {
        void fetch(URL_A);
        await vi.advanceTimersByTimeAsync(0);
      }
      expect(times()).toEqual([1_000, 1_000, 1_000]);
    });
  });

  test('a Request with a body is sent again whole', async () => {
    const request = new Request(URL_A, { method: 'PUT', body: 'order' });
    await finish(fetching([said(429, { 'retry-after': '1' })])(request));
    expect(sent.map(({ method, body }) => [method, body])).toEqual([['PUT', 'order'], ['PUT', 'order']]);
  });

  test('an abort ends the wait, and is not retried', async () => {
    const abort = new AbortController();
    const waiting = fetching([said(429, { 'retry-after': '5' })])(URL_A, { signal: abort.signal });
    await vi.advanceTimersByTimeAsync(1_000);
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect(sent).toHaveLength(1);
  });
});
