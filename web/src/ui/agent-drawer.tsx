import { asOf, useView } from "../moment";
import { go, href } from "../router";
import type { FleetAnswer } from "../api/types";
import { closeDrawer, openDrawer } from "./drawer";
import { EventsBy } from "./events";
import { shownName } from "./agent";
import { Words } from "./words";

function Link({ page, params, children }: { page: string; params: Record<string, string>; children: string }) {
  const open = (click: MouseEvent): void => {
    if (click.metaKey || click.ctrlKey) return;
    click.preventDefault();
    closeDrawer();
    go(page, params);
  };
  return <a class="button small" href={href(page, params)} onClick={open}>{children}</a>;
}

/** The ways on, and what it did last at the moment that is shown; while that is now, again with each event. */
function AgentBody({ name }: { name: string }) {
  const agent = useView<FleetAnswer>("/api/fleet").data?.agents.find((one) => one.name === name);
  const scope = `agent:${name}`;
  return (
    <>
      <p class="row">
        {agent?.goal && <Link page={`goals/${encodeURIComponent(agent.goal)}`} params={{}}>Goal</Link>}
        <Link page="brief" params={{ scope }}>Brief</Link>
        <Link page="timeline" params={{ agent: name }}>Timeline</Link>
        <Link page="events" params={{ scope }}>All its events</Link>
      </p>
      <h3>Last events</h3>
      <EventsBy params={{ scope, as_of: asOf.value, limit: 40, order: "newest" }} turn={agent?.last_id} opened={false} />
    </>
  );
}

/** Opens what an agent did last, and the ways on from there. */
export function openAgent(name: string): void {
  openDrawer(<Words text={shownName(name)} />, () => <AgentBody name={name} />);
}
