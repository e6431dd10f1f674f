"""Drive Sprig: `sprig run`, one process a turn, with the prompt on its standard input."""

from collections.abc import Mapping, Sequence

from fleetlore.events.envelope import Event
from fleetlore.process.environment import scrub_environment
from fleetlore.programs.harness import TurnResult, TurnRequest, Watch
from fleetlore.programs.turn_output import TurnReport, build_turn_program, run_turn_program
from fleetlore_sprig.transcript import SprigReader, SprigState


class SprigOutput:
    """Reads what `sprig run` prints, and keeps what the driver asks for: the session, the tokens, the last words."""

    def __init__(self, request: TurnRequest) -> None:
        self.report = TurnReport(session=request.session or request.new_session)
        self._reader = SprigReader(SprigState())

    def parse_output(self, raw: bytes) -> Sequence[Event]:
        """The events of one line."""
        events = self._reader.read(raw)
        for event in events:
            if event.kind == "model.replied":
                self.report.words, self.report.model = event.data["said"], self._reader.state.model
                self.report.tokens += (event.data.get("input") or 0) + (event.data.get("output") or 0)
            elif event.kind == "session.turn_ended":
                self.report.how = "finished"
        return events

    def flush_events(self) -> Sequence[Event]:
        """Nothing is held back."""
        return ()


class SprigHarness:
    """Takes turns with Sprig. It ends a turn that is stopped, too slow or over its budget, and leaves no process behind."""

    name = "sprig"
    has_sessions = True

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, keep: Sequence[str] = ()) -> None:
        self._command, self._environ, self._keep = tuple(command), environ, ("SPRIG_*", *keep)

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """One turn, in a session that is begun or continued."""
        session = ("--resume", request.session) if request.session else ("--session", request.new_session)
        environ = scrub_environment(self._environ, keep=self._keep, mark=request.mark)
        program = build_turn_program(request, (*self._command, "run", *session), environ)
        return await run_turn_program(request, program, SprigOutput(request), watch)
