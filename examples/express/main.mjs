// An Express app that is limited by a Tidegate service. The apps in examples/axum and examples/fastapi do the same.
import express from 'express';
import { Tidegate } from 'tidegate';
import { rateLimit } from 'tidegate/express';

// One client for the whole app: checks made at the same time are sent to the service in one request.
const client = new Tidegate({
  url: process.env.TIDEGATE_URL ?? 'http://localhost:8080',
  fallback: process.env.TIDEGATE_FALLBACK ?? 'local',
});
// The common options of all limits. Only a proxy on this machine is trusted to state the client's address.
const common = { client, trustedProxies: ['127.0.0.1/32'] };
// Customers are identified by their key; clients without a key, by address.
const byApiKey = (req) => req.get('x-api-key');
// Returns the number of pages that the client requests; at least 1, and 1 if it is not a number.
const pages = ({ query }) => (/^\d+$/.test(query.pages) ? Math.max(Number(query.pages), 1) : 1);
const isCount = (value) => Number.isInteger(value) && value >= 0;

const app = express();

app.get('/', (_req, res) => {
  res.type('text').send('hello');
});

app.get('/health', (_req, res) => {
  res.type('text').send('ok');
});

// Limits in code: 5 per minute and 100 per hour for each address.
app.get('/search', rateLimit({ ...common, name: 'search', limits: '5/minute;100/hour' }), (_req, res) => {
  res.json({ results: [] });
});

// Limits in the rules of the service, examples/quickstart/api_platform.yaml.
const orders = rateLimit({
  ...common,
  domain: 'api_platform',
  descriptors: (req) => [{ api_key: req.get('x-api-key') || 'anonymous', endpoint: 'POST /v1/orders' }],
});
app.post('/orders', orders, (_req, res) => {
  res.status(201).json({ order: 'accepted' });
});

// A report costs one unit per page.
const reports = rateLimit({
  ...common,
  name: 'reports',
  limits: '10/minute',
  cost: pages,
  keyGenerator: byApiKey,
});
app.post('/reports', reports, (_req, res) => {
  res.json({ report: 'done' });
});

// The cost of a completion is known only afterwards: the maximum is reserved, and the real cost is
// settled.
const complete = rateLimit({
  ...common,
  name: 'complete',
  limits: '1000/minute',
  cost: (req) => req.body.max_tokens,
  keyGenerator: byApiKey,
  reserve: true,
});
// An invalid prompt is rejected before anything is charged.
const prompt = (req, res, next) => {
  const { prompt, max_tokens: most, used } = req.body ?? {};
  if (typeof prompt === 'string' && isCount(most) && isCount(used)) next();
  else res.status(422).json({ error: 'prompt is a text, max_tokens and used are whole numbers from 0 on' });
};
app.post('/complete', express.json(), prompt, complete, async (req, res) => {
  const { used } = req.body;
  await req.rateLimit.settle(used);
  res.json({ used });
});

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', (error) => {
  if (error) throw error;
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    server.close();
    server.closeAllConnections();
    client.close();
  });
}
