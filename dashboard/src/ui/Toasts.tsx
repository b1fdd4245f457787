import { createStore, useStore } from "../state/store.ts";
import { Icon } from "./icons.tsx";

interface Toast {
  id: number;
  text: string;
}

const toasts = createStore<Toast[]>([]);
let last = 0;
const SHOWN_MS = 5_000;

/** Says briefly that something was done. */
export function toast(text: string): void {
  last += 1;
  const id = last;
  toasts.set((shown) => [...shown.slice(-2), { id, text }]);
  setTimeout(() => toasts.set((shown) => shown.filter((toast) => toast.id !== id)), SHOWN_MS);
}

export function Toasts() {
  const shown = useStore(toasts, (value) => value);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} class="toast">
          <Icon name="check" />
          {toast.text}
        </div>
      ))}
    </div>
  );
}
