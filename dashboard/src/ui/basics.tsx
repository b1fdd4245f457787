import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import type { Role } from "../api/types.ts";
import { useMay } from "../state/session.ts";
import { ago, dateTime } from "../text/format.ts";
import { Icon, type IconName } from "./icons.tsx";

interface ButtonProps {
  children: ComponentChildren;
  onClick?: (event: MouseEvent) => void;
  kind?: "plain" | "primary" | "danger" | "quiet";
  icon?: IconName;
  /** The role that the action needs. Others see the button, and why it does nothing. */
  needs?: Role;
  disabled?: boolean;
  type?: "button" | "submit";
  title?: string;
  label?: string;
  pressed?: boolean;
  small?: boolean;
}

export function Button(props: ButtonProps) {
  const may = useMay(props.needs ?? "check");
  const lacking = props.needs && !may ? `Needs the role ${props.needs}` : undefined;
  const kind = props.kind ?? "plain";
  return (
    <button
      type={props.type ?? "button"}
      class={`button button-${kind}${props.small ? " button-small" : ""}`}
      onClick={props.onClick}
      disabled={props.disabled || !may}
      title={lacking ?? props.title}
      aria-label={props.label}
      aria-pressed={props.pressed}
    >
      {props.icon && <Icon name={props.icon} />}
      {props.children}
    </button>
  );
}

export function IconButton(props: { icon: IconName; label: string; onClick: () => void; pressed?: boolean }) {
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={props.label}
      title={props.label}
      aria-pressed={props.pressed}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
    </button>
  );
}

/** A choice of a few values, as a group of radio buttons. */
export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChoose: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend class="unseen">{props.label}</legend>
      {props.options.map(([value, text]) => (
        <label key={value} class={value === props.value ? "choice-chosen" : ""}>
          <input
            type="radio"
            class="unseen"
            name={name}
            checked={value === props.value}
            onChange={() => props.onChoose(value)}
          />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

/** The outcomes and states that have a colour. Each has a shape too, for those who do not see the colour. */
export type Tone = "allowed" | "denied" | "shadow" | "error" | "off" | "accent" | "plain";

const SHAPES: Record<Tone, string> = {
  allowed: "●",
  denied: "■",
  shadow: "◐",
  error: "▲",
  off: "○",
  accent: "◆",
  plain: "",
};

export function Badge({
  tone,
  children,
  title,
}: {
  tone: Tone;
  children: ComponentChildren;
  title?: string;
}) {
  return (
    <span class={`badge tone-${tone}`} title={title}>
      {SHAPES[tone] && (
        <span class="shape" aria-hidden="true">
          {SHAPES[tone]}
        </span>
      )}
      {children}
    </span>
  );
}

/** A time as distance from now; the exact one on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={dateTime(at)}>
      {ago(at)}
    </time>
  );
}

/** A share as a bar with its numbers. */
export function Meter({ used, of, label }: { used: number; of: number; label: string }) {
  const share = of > 0 ? Math.min(1, used / of) : 0;
  const tone = share >= 1 ? "denied" : share >= 0.8 ? "error" : "allowed";
  return (
    <div
      class="meter"
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={of}
      aria-valuenow={Math.min(used, of)}
    >
      <div class={`meter-fill fill-${tone}`} style={{ width: `${share * 100}%` }} />
    </div>
  );
}

export function Field(props: {
  label: string;
  hint?: ComponentChildren;
  error?: string;
  children: ComponentChildren;
}) {
  const { label, hint, error, children } = props;
  return (
    <div class="field">
      <label>
        <span class="field-label">{label}</span>
        {children}
      </label>
      {error ? <span class="field-error">{error}</span> : hint && <span class="field-hint">{hint}</span>}
    </div>
  );
}

export function SearchField(props: {
  label: string;
  value: string;
  onInput: (text: string) => void;
  placeholder?: string;
}) {
  return (
    <label class="search-field">
      <span class="unseen">{props.label}</span>
      <Icon name="search" />
      <input
        type="search"
        data-search
        value={props.value}
        placeholder={props.placeholder ?? props.label}
        onInput={(event) => props.onInput(event.currentTarget.value)}
        autocomplete="off"
        spellcheck={false}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}

/** A box with a heading. */
export function Panel(props: {
  title?: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  return (
    <section class={`panel ${props.class ?? ""}`}>
      {(props.title || props.tools) && (
        <header class="panel-head">
          <h2>{props.title}</h2>
          {props.tools && <div class="tools">{props.tools}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

/** The heading of a page, with what filters or changes it. */
export function PageHead(props: {
  title: ComponentChildren;
  note?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{props.title}</h1>
        {props.note && <p class="muted">{props.note}</p>}
      </div>
      {props.children && <div class="tools">{props.children}</div>}
    </header>
  );
}

/** Links to the views of one thing. */
export function Tabs(props: {
  label: string;
  current: string;
  tabs: { name: string; text: string; href: string }[];
}) {
  return (
    <nav class="tabs" aria-label={props.label}>
      {props.tabs.map((tab) => (
        <a key={tab.name} href={tab.href} aria-current={tab.name === props.current ? "page" : undefined}>
          {tab.text}
        </a>
      ))}
    </nav>
  );
}
