import { useState } from "preact/hooks";

/** Copies a text that has to be asked for first. */
export function CopyFrom({ read, label }: { read: () => Promise<string>; label: string }) {
  const [said, say] = useState<string | null>(null);
  const copy = async (): Promise<void> => {
    const done = await read().then((text) => navigator.clipboard.writeText(text)).then(() => "Copied", () => "Could not copy");
    say(done);
    setTimeout(() => say(null), 1600);
  };
  return (
    <button type="button" class="button small" onClick={() => void copy()} aria-live="polite">
      {said ?? label}
    </button>
  );
}

/** Copies a text, and says that it did. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [said, say] = useState<string | null>(null);
  const copy = async (): Promise<void> => {
    const done = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Could not copy");
    say(done);
    setTimeout(() => say(null), 1600);
  };
  return (
    <button type="button" class="button small" onClick={() => void copy()} aria-live="polite">
      {said ?? label}
    </button>
  );
}
