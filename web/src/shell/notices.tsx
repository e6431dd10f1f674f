import { AgentName } from "../ui/agent";
import { Ago } from "../ui/ago";
import { unmarked } from "../ui/markdown";
import { Words } from "../ui/words";
import { dismiss, toasts } from "./watch";

/** Who came to need a person, in the corner, until somebody looks or it is over. */
export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {toasts.value.map((agent) => (
        <div key={agent.name} class="toast">
          <p><AgentName name={agent.name} /> <strong>needs you</strong> <span class="faint"><Ago at={agent.since} /></span></p>
          {agent.doing && <p class="toast-text"><Words text={unmarked(agent.doing)} /></p>}
          <button type="button" class="button icon" onClick={() => dismiss(agent.name)} aria-label="Dismiss">×</button>
        </div>
      ))}
    </div>
  );
}
