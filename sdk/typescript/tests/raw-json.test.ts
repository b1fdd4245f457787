import { expect, test } from 'vitest';

import { batchElements } from '../src/raw-json.js';

test('bodies are the very text, whatever is in them', () => {
  const bodies = [
    '{"a":"}]\\"{[","b":[1,{"c":[]}]}',
    '{ "spaced" : 1.0 , "large" : 18446744073709551615 }',
    '"text"',
    'null',
    '12e3',
    '[]',
    '{"ü":"\\u00fc\\\\"}',
  ];
  const text = ` [ ${bodies.map((body) => `{"headers":{"x":"a,]}"},"status":200,"body":${body}}`).join(' ,\n')} ] `;
  expect(batchElements(text)?.map((element) => element.text)).toEqual(bodies);
});

test('the order of members does not matter', () => {
  const text = '[{"body":{"body":1},"status":429,"headers":{}},{"status":200,"headers":{},"body":2}]';
  expect(batchElements(text)?.map(({ status, text: body }) => [status, body])).toEqual([[429, '{"body":1}'], [200, '2']]);
});

test.each(['', '{}', '[1]', '[null]', '[{"status":200,"headers":{}}]', '[{"headers":{},"body":1}]', '[{"status":200,"headers":{},"body":1}'])(
  'what is no list of answers is none: %s',
  (text) => {
    expect(batchElements(text)).toBeUndefined();
  },
);
