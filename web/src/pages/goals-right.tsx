import { meta } from "../meta";
import { asOf } from "../moment";
import type { GoalsAnswer } from "../api/types";

/** Whether this page may control, now. */
export function maySteer(): boolean {
  return asOf.value === null && !!meta.value?.scopes_of_token.includes("admin");
}

/** What is needed to control from here. */
export function HowToSteer() {
  if (asOf.value !== null) return <p class="steer-how">This is the past. To change something, return to live (<kbd>l</kbd>).</p>;
  if (!meta.value || maySteer()) return null;
  return meta.value.sealed ? (
    <p class="steer-how">To control it from here, start <code>lore up</code> in a terminal and give it the log's passphrase: it then shows an address that may control. Or use <code>lore goal</code> and <code>lore decide</code> in a terminal.</p>
  ) : (
    <p class="steer-how">To control it from here, open this page with <code>lore up --open</code>, or add <code>#token=…</code> to its address, of <code>lore token create --scope admin</code>.</p>
  );
}

/** Whose word counts on this log. */
export function SealLine({ answer }: { answer: GoalsAnswer }) {
  if (!meta.value) return null;
  if (!meta.value.sealed) return <p class="seal-line">This log is not sealed: anyone with write access can control its goals. <code>lore seal</code> changes that.</p>;
  const said = {
    checked: "This log is sealed: only signed control events are obeyed.",
    named: "This log is sealed, and this server was started without its passphrase: it cannot check signatures or control goals.",
    none: "This log was sealed after this server started: restart lore up so that it checks signatures.",
  }[answer.signatures];
  return <p class="seal-line"><span aria-hidden="true">▣</span> {said}</p>;
}
