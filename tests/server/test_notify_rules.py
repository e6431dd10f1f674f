"""The rules of `[[notify]]`: who may write them, what they may contain, and that no secret is sent."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from fleetlore import settings as config
from fleetlore.errors import ConfigError
from fleetlore.server.notifications.rules import FORMATS, PLACEHOLDERS, SITUATIONS, CommandTarget, Rule, Webhook, parse_rules
from fleetlore.settings import NOTIFY_KEYS, Settings

DOCS = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
RULE = 'name = "r"\nwhen = "needs you"\nwebhook = "https://hooks.example/T0PSECRET"\n'


class Home:
    """A user's file, and a project's."""

    def __init__(self, folder: Path) -> None:
        self.user, self.project = folder / "user" / "fleetlore" / "fleetlore.toml", folder / "project" / "fleetlore.toml"
        for file in (self.user, self.project):
            file.parent.mkdir(parents=True)

    def settings(self, content: str, **more: str) -> Settings:
        self.user.write_text(dedent(content))
        return config.load_settings(environ={"XDG_CONFIG_HOME": str(self.user.parents[1])}, folder=str(self.project.parent), **more)

    def rules(self, content: str, **more: str) -> tuple[Rule, ...]:
        return parse_rules(self.settings(content, **more))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_rule_says_what_it_waits_for_and_whom_it_informs(home: Home) -> None:
    needs, turns, kind, arc = home.rules(
        """
        [[notify]]
        name = "needs-me"
        when = "needs you"
        webhook = "https://hooks.example/x"
        format = "slack"
        secret = "hush"
        token = "abc"
        full = true

        [[notify]]
        name = "turns"
        when = "progress"
        every = 5
        scope = "agent:ada"
        max_age = "1h 30m"
        command = ["notify-send", "{text}"]

        [[notify]]
        name = "errors"
        kind = "town.*"
        command = ["x"]

        [[notify]]
        name = "rescues"
        arc = "rescue"
        command = ["x"]
        """
    )
    target = Webhook("https://hooks.example/x", "slack", "hush", "abc")
    source = str(home.user)
    assert needs == Rule(name="needs-me", by="when", what="needs you", target=target, full=True, source=source)
    assert (turns.every, turns.scope, turns.max_age, turns.target) == (
        5,
        "agent:ada",
        timedelta(minutes=90),
        CommandTarget(("notify-send", "{text}")),
    )
    assert [(rule.by, rule.what, rule.cursor) for rule in (kind, arc)] == [
        ("kind", "town.*", "notify/errors"),
        ("arc", "rescue", "notify/rescues"),
    ]


def test_without_rules_there_are_none(home: Home) -> None:
    assert home.rules("town = 'harbour'") == ()


def test_a_projects_file_cannot_have_anything_run_or_called(home: Home) -> None:
    home.project.write_text(f"[[notify]]\n{RULE}")
    settings = home.settings("")
    assert settings.notify.value == ()
    assert str(home.project) in settings.warnings[0]
    assert "T0PSECRET" not in settings.warnings[0]


def test_a_rule_can_be_for_one_log_only(home: Home) -> None:
    content = f'[[notify]]\nlog = "sqlite:fleet.db"\n{RULE}'
    assert home.rules(content) == ()
    own = f"sqlite:{home.user.parent}/fleet.db"
    assert [rule.name for rule in home.rules(content, log=own)] == ["r"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("notify = 1", "notify: tables are needed"),
        ("[notify]\nname = 'r'", "notify: tables are needed"),
        (f"[[notify]]\n{RULE}lgo = 1", "unknown setting: notify.lgo"),
        (f"[[notify]]\n{RULE}every = 'x'", "notify 1: every: a number is needed"),
        (f"[[notify]]\n{RULE}every = true", "notify 1: every: a number is needed"),
        (f"[[notify]]\n{RULE}full = 1", "notify 1: full: true or false"),
        (f"[[notify]]\n{RULE}secret = 7", "notify 1: secret: a string is needed"),
        (f"[[notify]]\n{RULE}scope = ''", "notify 1: scope: a string is needed"),
        ("[[notify]]\ncommand = 'rm -rf /'", "notify 1: command: a list of words is needed"),
        ("[[notify]]\ncommand = []", "notify 1: command: a list of words is needed"),
        ("[[notify]]\ncommand = ['x', 1]", "notify 1: command: a list of words is needed"),
    ],
)
def test_a_wrong_type_is_an_error_of_every_command(home: Home, content: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        home.settings(content)
    assert reason in str(caught.value)
    assert "T0PSECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("when = 'done'\ncommand = ['x']", "each rule needs a name"),
        ("name = 'r'\ncommand = ['x']", "write exactly one of when, kind, arc, brief"),
        ("name = 'r'\nwhen = 'done'\nkind = 'a.b'\ncommand = ['x']", "write exactly one of when, kind, arc, brief"),
        ("name = 'r'\nwhen = 'done'", "write exactly one of webhook, command, desktop"),
        (f"{RULE}command = ['x']", "write exactly one of webhook, command, desktop"),
        ("name = 'r'\nwhen = 'angry'\ncommand = ['x']", "when: unknown value 'angry'; choose from needs you, finished"),
        ("name = 'r'\narc = 'love'\ncommand = ['x']", "arc: unknown value 'love'"),
        ("name = 'r'\nkind = 'Fleet'\ncommand = ['x']", "'Fleet' is not an event kind"),
        ("name = 'r'\nkind = 'notify.sent'\ncommand = ['x']", "notifications cannot trigger notifications"),
        ("name = 'r'\nkind = 'notify.*'\ncommand = ['x']", "notifications cannot trigger notifications"),
        (f"{RULE}scope = 'galaxy'", "unknown scope: 'galaxy'"),
        (f"{RULE}every = 3", 'every: only goes with when = "progress"'),
        ("name = 'r'\nwhen = 'progress'\nevery = 0\ncommand = ['x']", "a number of turns from 1 to 10,000"),
        (f"{RULE}max_age = 'soon'", "not a duration: 'soon'"),
        (f"{RULE}max_age = '0s'", "is out of range; write at most 366 days"),
        (f"{RULE}max_age = '9years'", "is out of range; write at most 366 days"),
        (f"{RULE}format = 'fax'", "unknown format: 'fax'"),
        (f'{RULE}token = "a\\nb"', "token: contains characters that cannot be sent in a header"),
        ("name = 'r'\nwhen = 'done'\ncommand = ['x']\nsecret = 's'", "secret: only goes with a webhook"),
        ("name = 'r'\nwhen = 'done'\ncommand = ['x', '--body={text}']", "a placeholder must be a whole argument"),
        ("name = 'r'\nwhen = 'done'\ncommand = ['{text}']", "a placeholder must be a whole argument"),
        ("name = 'r'\nwhen = 'done'\ncommand = ['']", "is not a program with arguments"),
        ('name = "r"\nwhen = "done"\ncommand = ["x", "a\\u0000b"]', "is not a program with arguments"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_name(home: Home, content: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        home.rules(f"[[notify]]\n{content}")
    assert str(caught.value).startswith(f"{home.user}: notify")
    assert reason in str(caught.value)
    assert "T0PSECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "file:///T0PSECRET",
            "ftp://host/T0PSECRET",
            "T0PSECRET",
            "https://",
            "https:///T0PSECRET",
            "http://[T0PSECRET",
            "http://h:x/T0PSECRET",
        ),
        *("http://h:0/T0PSECRET", "http://h/T0P SECRET", "http://h/\\nT0PSECRET", "http://hö/T0PSECRET", "http://ada:T0PSECRET@h/"),
    ],
)
def test_what_cannot_be_called_is_refused_without_being_reported(home: Home, url: str) -> None:
    with pytest.raises(ConfigError, match="webhook") as caught:
        home.rules(f'[[notify]]\nname = "r"\nwhen = "done"\nwebhook = "{url}"')
    assert "SECRET" not in str(caught.value)


def test_two_rules_cannot_share_a_name(home: Home) -> None:
    with pytest.raises(ConfigError, match="notify 'r': another rule has this name"):
        home.rules(f"[[notify]]\n{RULE}[[notify]]\n{RULE}")


def test_nothing_shows_its_secrets(home: Home) -> None:
    settings = home.settings(
        f"[[notify]]\n{RULE}secret = 'hush-hush'\n[[notify]]\nname = 'c'\nwhen = 'done'\ncommand = ['/bin/curl', 'hush-hush']"
    )
    for thing in (settings, settings.notify, parse_rules(settings), [rule.target for rule in parse_rules(settings)]):
        for shown in (repr(thing), str(thing)):
            assert "SECRET" not in shown
            assert "hush" not in shown
    assert [rule.target.shown for rule in parse_rules(settings)] == ["hooks.example", os.path.basename("/bin/curl")]


@pytest.mark.parametrize("word", [*NOTIFY_KEYS, *SITUATIONS, *FORMATS, *(f"{{{name}}}" for name in PLACEHOLDERS)])
def test_everything_that_a_rule_can_say_is_documented(word: str) -> None:
    assert f"`{word}`" in DOCS


def test_the_rules_of_the_manual_are_rules(home: Home) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    assert [rule.name for rule in home.rules(example)] == ["needs-me", "team", "phone", "errors", "morning", "comebacks"]
