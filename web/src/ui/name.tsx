import { leadOf } from "./lead";
import { unmarked } from "./markdown";
import { Words } from "./words";

/** A name as people read it: what many share is fainter than what tells one from another. */
export function Name({ text }: { text: string }) {
  const lead = leadOf(text);
  return (
    <>
      {lead && <span class="lead"><Words text={lead} /></span>}
      <Words text={unmarked(text.slice(lead.length)) || text} />
    </>
  );
}
