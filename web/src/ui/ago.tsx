import { now } from "../clock";
import { ago, full, length } from "./times";

/** How long ago something was, ticking; the exact time on hover. */
export function Ago({ at, long = false }: { at: string | null | undefined; long?: boolean }) {
  if (!at) return <span class="faint">never</span>;
  const passed = now.value - Date.parse(at);
  return (
    <time dateTime={at} title={full(at)} class="num">
      {long ? length(passed / 1000) : ago(passed)}
    </time>
  );
}
