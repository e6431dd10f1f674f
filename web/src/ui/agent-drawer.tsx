import { go, href } from "../router";
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
      <EventsBy params={{ scope, limit: 40, order: "newest" }} />
    </>
  );
}

/** Opens what an agent did last, and the ways on from there. */
export function openAgent(name: string): void {
  openDrawer(<Words text={shownName(name)} />, () => <AgentBody name={name} />);
}
