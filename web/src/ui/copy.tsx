import { useState } from "preact/hooks";

/** Copies a text that has to be asked for first. */
export function CopyFrom({ read, label, title }: { read: () => Promise<string>; label: string; title?: string | undefined }) {
  const [said, say] = useState<string | null>(null);
  const copy = async (): Promise<void> => {
    const done = await read().then((text) => navigator.clipboard.writeText(text)).then(() => "Copied", () => "Could not copy");
    say(done);
    setTimeout(() => say(null), 1600);
  };
  return (
    <button type="button" class="button small" title={title} onClick={() => void copy()} aria-live="polite">
      {said ?? label}
    </button>
  );
}

/** Copies a text, and says that it did. */
export function Copy({ text, label = "Copy", title }: { text: string; label?: string; title?: string }) {
  return <CopyFrom read={() => Promise.resolve(text)} label={label} title={title} />;
}
