/** The rules of the tests. Windows are long, so that nothing frees while a test looks. */
export const API_RULES = `domain: api
tenant: api_key
descriptors:
  - key: api_key
    name: per key
    limits:
      - { name: steady, algorithm: fixed_window, requests: 5, per: 365d }
    tiers:
      free: {}
      pro: { steady: { requests: 50 } }
    descriptors:
      - key: endpoint
        value: "POST /orders"
        name: orders
        limits:
          - { name: orders, algorithm: fixed_window, requests: 3, per: 365d }
`;

export const WEB_RULES = `domain: web
forward_auth:
  descriptors:
    - [{ key: client, header: x-client }]
descriptors:
  - key: client
    name: per client
    limits:
      - { name: steady, algorithm: token_bucket, requests: 600, per: minute, burst: 50 }
`;

/** Keys that try to break a page. */
export const HOSTILE = {
  html: `<img src=x onerror="document.title='broken'"><script>document.title='broken'</script>`,
  bidi: "user\u202etxt.exe\u2066",
  long: `long-${"x".repeat(200)}-${"y".repeat(3000)}-end`,
  emoji: "👩‍👩‍👧 家族 🏳️‍🌈",
};
