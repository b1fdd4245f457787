import { useState } from "preact/hooks";

import { pieces, plain, shorten } from "../text/visible.ts";
import { Copy } from "./Copy.tsx";

/**
 * Text that strangers chose: isolated from the direction of the text around it, with everything unseen marked, cut if it
 * is long, and to be copied as it is. `copy` and `expand` add buttons, which must not be used within links.
 */
export function KeyText(props: { text: string; most?: number; copy?: boolean; expand?: boolean }) {
  const [whole, setWhole] = useState(false);
  const mayExpand = props.copy || props.expand;
  const { head, tail, cut } = shorten(props.text, whole ? Number.POSITIVE_INFINITY : (props.most ?? 96));
  return (
    <span class="key-text">
      <bdi>
        <Pieces text={head} />
      </bdi>
      {cut > 0 &&
        (mayExpand ? (
          <button
            type="button"
            class="cut"
            onClick={() => setWhole(true)}
            title={`Show ${cut} more characters`}
          >
            … {cut} more …
          </button>
        ) : (
          <span class="cut">… {cut} more …</span>
        ))}
      {tail && (
        <bdi>
          <Pieces text={tail} />
        </bdi>
      )}
      {props.copy && <Copy text={props.text} label={`Copy ${plain(props.text).slice(0, 60)}`} />}
    </span>
  );
}

function Pieces({ text }: { text: string }) {
  return (
    <>
      {pieces(text).map((piece, index) =>
        piece.mark ? (
          <span key={index} class="unseen-mark" title={piece.mark}>
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}

/** The key of a counter, or its fingerprint where the rule hides keys. */
export function CounterKey(props: {
  value: string | null;
  fingerprint: string;
  most?: number;
  copy?: boolean;
  expand?: boolean;
}) {
  if (props.value === null) {
    return (
      <span class="key-text" title="The rule hides its keys">
        <span class="muted">hidden</span> <code>{props.fingerprint.slice(0, 16)}</code>
      </span>
    );
  }
  const { value, most, copy, expand } = props;
  return <KeyText text={value} most={most} copy={copy} expand={expand} />;
}
