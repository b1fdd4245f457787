import { Dialog } from "../ui/Dialog.tsx";
import { PAGES_LIST } from "./pages.ts";

const KEYS: [string[], string][] = [
  [["/"], "Go to the search field"],
  [["?"], "Show this help"],
  [["p"], "Pause or follow"],
  [["Esc"], "Close what is open"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose} wide>
      <div class="columns">
        <dl class="shortcuts">
          {KEYS.map(([keys, text]) => (
            <Shortcut key={text} keys={keys} text={text} />
          ))}
        </dl>
        <dl class="shortcuts">
          {PAGES_LIST.map((page) => (
            <Shortcut key={page.name} keys={["g", page.key]} text={page.title} />
          ))}
        </dl>
      </div>
      <p class="muted small">
        The address of the page keeps what you see: send it to a colleague, or keep it. The API that this page
        uses is described at <a href="docs/">/docs</a>.
      </p>
    </Dialog>
  );
}

function Shortcut({ keys, text }: { keys: string[]; text: string }) {
  return (
    <div>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{text}</dd>
    </div>
  );
}
