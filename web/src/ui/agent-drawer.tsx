import { asOf, useView } from "../moment";
import { go, href } from "../router";
import type { FleetAnswer } from "../shapes";
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

/** What it did last, at the moment that is shown; while that is now, anew with each deed. */
function LastEvents({ name }: { name: string }) {
  const agent = useView<FleetAnswer>("/api/fleet").data?.agents.find((one) => one.name === name);
  return <EventsBy params={{ scope: `agent:${name}`, as_of: asOf.value, limit: 40, order: "newest" }} turn={agent?.last_id} opened={false} />;
}

function AgentBody({ name }: { name: string }) {
  const scope = `agent:${name}`;
  return (
    <>
      <p class="row">
        <Link page="story" params={{ scope }}>Its story</Link>
        <Link page="timeline" params={{ agent: name }}>Its timeline</Link>
        <Link page="events" params={{ scope }}>All its events</Link>
      </p>
      <h3>Last events</h3>
      <LastEvents name={name} />
    </>
  );
}

/** Opens what an agent did last, and the ways on from there. */
export function openAgent(name: string): void {
  openDrawer(<Words text={shownName(name)} />, () => <AgentBody name={name} />);
}
