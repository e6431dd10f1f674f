"""A project's `fleetlore.toml` counts only after the user approved its exact content; before that, only a log inside the project does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fleetlore import settings as config
from tests.cli.person import at_terminal
from tests.cli.running import Lore

ATTACKS = {
    "log on a server": 'log = "nats://127.0.0.1:1"',
    "log outside": 'log = "sqlite:/outside.db"',
    "another town": 'town = "theirs"',
    "patterns that match everything": "[redact]\npatterns = ['.', 'a$']",
    "patterns that never end": "[redact]\npatterns = ['(a+)+b']",
    "levels": '[redact]\nlevel = "all"',
    "shipping": 'log = "sqlite:fleet.db"\n[ship]\nto = "nats://127.0.0.1:1"\nfull = true',
    "trimming": 'log = "sqlite:fleet.db"\n[retention]\nkeep = "1d"',
    "no whole texts": "[retention]\nwhole_texts = false",
    "free models": '[prices."claude-opus-4-8"]\ninput = 0\noutput = 0',
    "commands": "[[notify]]\nname = 'x'\nwhen = 'kind'\nkind = 'fleet.idle'\ncommand = ['touch', 'ran']",
    "secrets of forges": "[hooks]\ngithub_secret = 'known'",
    "models and databases": "[graph.databases]\nshop = 'sqlite:/etc/passwd'",
    "prompts": "[context]\nbudget = 1",
    "rules of flags": "[flags]\nrules = 'mine.toml'",
    "broken": "log = [",
    "unknown": "surprise = 1",
    "deep": "a = " + "[" * 5000,
    "not text": "\udcff",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_without_approval_nothing_counts_but_a_log_inside(lore: Lore, name: str) -> None:
    default = {key: value["value"] for key, value in lore("config", "show", "--json").json.items() if isinstance(value, dict)}
    lore.write("fleetlore.toml", os.fsencode(ATTACKS[name]), approve=False)
    result = lore("config", "show", "--json", code=0)
    shown = {key: value["value"] for key, value in result.json.items() if isinstance(value, dict)}
    changed = {key for key in default if shown[key] != default[key]}
    assert changed <= {"log"}
    assert shown["log"] in ("sqlite:", f"sqlite:{lore.folder}/fleet.db")
    assert result.err.count("\n") == 1
    assert "`lore trust`" in result.err
    assert lore("emit", "fleet.idle", code=0).code == 0
    assert not (lore.folder / "ran").exists()


def test_an_approved_file_counts_until_it_changes(lore: Lore) -> None:
    path = lore.write("fleetlore.toml", 'town = "ours"\n', approve=False)
    assert lore("config", "show", "--json").json["town"]["value"] == "default"
    assert "ours" in lore("trust", "--yes", code=0).out
    assert lore("config", "show", "--json").json["town"]["value"] == "ours"
    Path(path).write_text('town = "ours"\n\n')
    assert lore("config", "show", "--json").json["town"]["value"] == "default"
    assert [row["state"] for row in lore("trust", "--list", "--json").json["approved"]] == ["changed since; not used"]


def test_an_approval_is_for_one_place_and_can_be_taken_back(lore: Lore) -> None:
    lore.write("fleetlore.toml", 'town = "ours"\n')
    copy = lore.folder.parent / "copy"
    shutil.copytree(lore.folder, copy)
    os.chdir(copy)
    assert lore("config", "show", "--json").json["town"]["value"] == "default"
    os.chdir(lore.folder)
    assert "taken back" in lore("trust", "--revoke", code=0).out
    assert lore("config", "show", "--json").json["town"]["value"] == "default"
    assert lore("trust", "--list", code=0).out == "no project file is approved\n"


def test_an_approved_file_counts_fully(lore: Lore) -> None:
    lore.write(
        "fleetlore.toml",
        f"log = 'sqlite:{lore.folder.parent}/other.db'\n[[notify]]\nname = 'mine'\nwhen = 'needs-you'\ncommand = ['true']\n",
    )
    shown = lore("config", "show", "--json", code=0)
    assert (shown.json["log"]["value"], shown.json["notify"]["value"], shown.err) == (f"sqlite:{lore.folder.parent}/other.db", ["mine"], "")


def test_a_person_sees_the_content_and_is_asked(lore: Lore) -> None:
    lore.write("fleetlore.toml", 'town = "ours"\x1b[2J\n', approve=False)
    assert "--yes" in lore("trust", code=2).err
    seen = at_terminal(lore, "trust", answers=[])
    assert "\x1b[2J" not in seen.out
    assert seen.code != 0
    assert config.project_file(str(lore.folder)) is not None
    assert lore("config", "show", "--json").json["town"]["value"] == "default"


def test_an_approval_that_another_user_or_a_link_planted_does_not_count(lore: Lore) -> None:
    path = lore.write("fleetlore.toml", 'town = "ours"\n')
    [approval] = Path(config.trust_folder()).iterdir()
    if os.geteuid() == 0:
        os.chown(approval, 65534, 65534)
        assert lore("config", "show", "--json").json["town"]["value"] == "default"
    assert oct(os.stat(config.trust_folder()).st_mode & 0o777) == "0o700"
    assert path
