import { now } from "../clock";
import { ago, full, length } from "./times";

/** How long ago something was, ticking; the exact time on hover. */
export function Ago({ at, long = false, suffix = false }: { at: string | null | undefined; long?: boolean; suffix?: boolean }) {
  if (!at) return <span class="faint">never</span>;
  const passed = now.value - Date.parse(at);
  const said = long ? length(passed / 1000) : ago(passed);
  return (
    <time dateTime={at} title={full(at)} class="num">
      {suffix && said !== "now" ? `${said} ago` : said}
    </time>
  );
}
