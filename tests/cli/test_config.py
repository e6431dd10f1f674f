"""Settings: which wins, where each comes from, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetlore import settings as config
from fleetlore.errors import ConfigError
from tests.cli.running import Lore


def shown(lore: Lore, *argv: str) -> dict[str, dict[str, object]]:
    settings: dict[str, dict[str, object]] = lore("config", "show", "--json", *argv, code=0).json
    return settings


def test_flags_beat_the_environment_beats_the_project_beats_the_user_beats_the_default(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    def setting() -> tuple[object, object, object]:
        settings = shown(lore)
        return settings["log"]["value"], settings["town"]["value"], settings["log"]["from"]

    assert setting() == ("sqlite:", "default", "default")
    user = lore.write("../home/.config/fleetlore/fleetlore.toml", 'log = "sqlite:/user.db"\ntown = "user"\n')
    assert setting() == ("sqlite:/user.db", "user", str(Path(user).resolve()))
    project = lore.write("fleetlore.toml", 'log = "sqlite:project.db"\ntown = "project"\n')
    assert setting() == (f"sqlite:{lore.folder}/project.db", "project", project)
    monkeypatch.setenv("FLEETLORE_LOG", "sqlite:/environment.db")
    monkeypatch.setenv("FLEETLORE_TOWN", "environment")
    assert setting() == ("sqlite:/environment.db", "environment", "FLEETLORE_LOG")
    flags = shown(lore, "--log", "sqlite:/flag.db", "--town", "flag")
    assert flags["log"] == {"value": "sqlite:/flag.db", "from": "--log", "file": "/flag.db"}
    assert flags["town"] == {"value": "flag", "from": "--town"}


def test_the_users_file_may_be_elsewhere(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(lore.folder / "xdg"))
    path = lore.write("xdg/fleetlore/fleetlore.toml", 'town = "harbour"\n')
    assert shown(lore)["town"] == {"value": "harbour", "from": path}


def test_the_nearest_project_file_upward_counts(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    lore.write("fleetlore.toml", 'town = "outer"\n')
    nearer = lore.write("a/fleetlore.toml", 'town = "inner"\n')
    below = lore.folder / "a" / "b" / "c"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert shown(lore)["town"] == {"value": "inner", "from": nearer}


@pytest.mark.parametrize("name", ["plain", "per%20cent", "what?", "blank and ünïcode"])
def test_a_relative_path_in_a_file_is_relative_to_that_file(lore: Lore, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    lore.write(f"{name}/fleetlore.toml", 'log = "sqlite:logs/fleet.db?sync=normal"\n')
    (lore.folder / name / "logs").mkdir()
    below = lore.folder / name / "deep"
    below.mkdir()
    monkeypatch.chdir(below)
    lore("emit", "fleet.idle", code=0)
    assert (lore.folder / name / "logs" / "fleet.db").exists()


@pytest.mark.parametrize(
    ("url", "town"),
    [("sqlite:/x.db?town=harbour", "harbour"), ("sqlite:/x.db?sync=normal&town=a%20b", "a b"), ("sqlite:/x.db", "file")],
)
def test_the_town_of_an_address_speaks_for_its_level(lore: Lore, monkeypatch: pytest.MonkeyPatch, url: str, town: str) -> None:
    lore.write("fleetlore.toml", 'town = "file"\n')
    assert shown(lore, "--log", url)["town"]["value"] == town
    monkeypatch.setenv("FLEETLORE_TOWN", "environment")
    assert shown(lore, "--log", url)["town"]["value"] == (town if "town" in url else "environment")
    assert shown(lore, "--log", url, "--town", "flag")["town"]["value"] == "flag"


def test_patterns_of_project_and_user_add_up(lore: Lore) -> None:
    lore.write("../home/.config/fleetlore/fleetlore.toml", "[redact]\npatterns = ['A+', 'B+']\n")
    lore.write("fleetlore.toml", "[redact]\npatterns = ['C+', 'A+']\n")
    assert shown(lore)["redact.patterns"]["value"] == ["C+", "A+", "B+"]
    lore("emit", "fleet.idle", "--text", "xAAA BBB CCC")
    assert lore("events", "--json").json["text"] == "x[redacted] [redacted] [redacted]"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("lgo = 'x'", "unknown setting: lgo; did you mean log?"),
        ("log = 7", "log: a string is needed"),
        ("log = ''", "log: a string is needed"),
        ("town = []", "town: a string is needed"),
        ("redact = 1", "redact: a table is needed"),
        ("[redact]\npattern = []", "unknown setting: redact.pattern"),
        ("[redact]\npatterns = 'x'", "redact.patterns: a list of strings is needed"),
        ("[redact]\npatterns = [1]", "redact.patterns: a list of strings is needed"),
        ("[redact]\npatterns = ['(']", "redact.patterns: '(' is no regular expression"),
        ("log = ", "not TOML"),
    ],
)
def test_a_wrong_file_is_named_with_the_wrong_key(lore: Lore, content: str, reason: str) -> None:
    path = lore.write("fleetlore.toml", content)
    result = lore("emit", "fleet.idle", code=1)
    assert result.err.startswith(f"lore: {path}: ")
    assert reason in result.err


def test_a_file_of_other_bytes_is_an_error_of_the_settings(lore: Lore) -> None:
    lore.write("fleetlore.toml", b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"fleetlore\.toml: not TOML"):
        config.load_settings()


def test_the_table_for_people_names_every_setting_and_its_source(lore: Lore) -> None:
    lore.write("fleetlore.toml", 'town = "harbour"\n[redact]\npatterns = ["EMP-[0-9]+"]\n')
    recorded = lore("config", code=0).out
    for word in ("log", "sqlite:", "from default", "town", "harbour", "fleetlore.toml", "redact.patterns", "EMP-[0-9]+", "user file"):
        assert word in recorded


@pytest.mark.parametrize(
    "url", ["redis://ada:hunter2@host:6379/0", "redis://:hunter2@host", "nats://hunter2@host", "x://h?password=hunter2"]
)
def test_secrets_in_addresses_are_masked(url: str) -> None:
    assert "hunter2" not in config.mask_url(url)
    assert "host" in config.mask_url(url) or "h?" in config.mask_url(url)
    assert config.mask_url("sqlite:fleet.db?town=x") == "sqlite:fleet.db?town=x"


def test_the_struct_says_everything_about_a_setting() -> None:
    assert {*config.Settings._fields} - config.SPECS.keys() == {"files", "warnings"}
    for name, spec in config.SPECS.items():
        assert spec.help, name
        assert spec.merge.__doc__, name
        assert config.Settings._field_defaults[name].source == config.DEFAULT


def test_the_keys_of_a_table_are_those_that_are_known() -> None:
    keys = {name: {part.partition(".")[0] for part in spec.parts} for name, spec in config.SPECS.items()}
    assert keys["hooks"] == {*config.HOOK_SECRETS}
    assert keys["context"] == config.CONTEXT_NAMES.keys() | config.CONTEXT_NUMBERS.keys()
    assert keys["graph"] == config.GRAPH_TEXTS.keys() | config.GRAPH_TABLES.keys() | config.GRAPH_NUMBERS.keys()
