/** Icons of our own, drawn as strokes in the colour of the text around them. They are decoration: labels say what they are. */

const PATHS = {
  overview: "M3 13h4l2-7 4 12 2-5h6",
  rules: "M5 5h6M5 12h14M5 19h9M15 5h4M18 19h1",
  keys: "M14 10a4 4 0 1 1-1.2-2.8M13 9l7 7M17 13l2-2",
  tenants:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M3 20c.5-4 3-6 6-6s5.500 2 6 6M16 4.500a3.500 3.500 0 0 1 0 6.500M18 14.500c1.700.9 2.700 2.700 3 5.500",
  try: "M7 4v16l13-8z",
  events: "M12 3v2M6 17h12l-1.500-2.500V10a4.500 4.500 0 0 0-9 0v4.500zM10 20h4",
  audit: "M7 3h8l4 4v14H7zM15 3v4h4M10 12h6M10 16h6",
  tokens: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9.500 12l2 2 3.500-4",
  nodes: "M4 5h16v5H4zM4 14h16v5H4zM7.500 7.500h.01M7.500 16.500h.01",
  settings: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M16 16l4 4",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 6h16M4 12h16M4 18h16",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.500l4.500 4.500L19 7",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 11v5M12 8h.01",
  pause: "M8 5v14M16 5v14",
  play: "M8 5v14l11-7z",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 2v2M12 20v2M4.900 4.900l1.400 1.400M17.700 17.700l1.400 1.400M2 12h2M20 12h2M4.900 19.100l1.400-1.400M17.700 6.300l1.400-1.400",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500",
  system: "M3 5h18v11H3zM9 20h6M12 16v4",
  table: "M4 5h16v14H4zM4 10h16M4 14.500h16M10 10v9",
  chart: "M4 4v16h16M8 15l3-4 3 2 5-6",
  chevron: "M9 6l6 6-6 6",
  out: "M14 4h5v16h-5M4 12h11M11 8l4 4-4 4",
  external: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  plus: "M12 5v14M5 12h14",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The sign: two posts, and the tide between them. */
export function Logo({ size = 24 }: { size?: number }) {
  return (
    <svg class="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect class="logo-ground" width="32" height="32" rx="7" />
      <path class="logo-posts" d="M8 6v20M24 6v20" />
      <path class="logo-tide" d="M8 13c3-3 5 3 8 0s5 3 8 0M8 20c3-3 5 3 8 0s5 3 8 0" />
    </svg>
  );
}
