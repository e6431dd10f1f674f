"""The rules of a user: prices, and files with more rules for flags."""

from pathlib import Path

import pytest

from fleetlore import settings
from fleetlore.errors import ConfigError
from fleetlore.views.outcomes.flags import find_flags
from fleetlore.views.outcomes.rules import default_rules, read_outcome_rules
from tests.views.outcomes.test_flags import make_call

RULE = '[[command]]\nflag = "destructive_command"\nwhat = "cache dropped"\nrun = ["our-cache drop"]\nyes = ["our-cache drop all"]\n'


def load(home: Path, *, project: Path | None = None) -> settings.Settings:
    return settings.load_settings(environ={"XDG_CONFIG_HOME": str(home)}, folder=str(project or home))


def write_settings(home: Path, text: str) -> None:
    (home / "fleetlore").mkdir(parents=True, exist_ok=True)
    (home / "fleetlore" / settings.FILE_NAME).write_text(text)


def test_rules_of_a_user_add_to_the_built_in_ones(tmp_path: Path) -> None:
    write_settings(tmp_path, '[flags]\nrules = "my-flags.toml"\n')
    (tmp_path / "fleetlore" / "my-flags.toml").write_text(RULE)
    rules = read_outcome_rules(load(tmp_path))
    found = find_flags(make_call("our-cache drop all; git push --force"), rules.flags)
    assert {flag.flag for flag in found} == {"destructive_command", "force_push"}
    assert rules.key != default_rules().key  # stored records are made again


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        ("[[command]]\nflag = 'risky'\nwhat = 'x'\nrun = ['x']\n", "unknown class: risky"),
        (RULE + 'no = ["our-cache drop all"]\n', "finds what its examples exclude"),
        ("[[command]]\nflag = 'no_verify'\nwhat = 'x'\nrun = ['x']\ntext = '('\n", "invalid pattern"),
    ],
)
def test_a_file_with_an_error_is_refused_with_its_name(tmp_path: Path, content: str | None, reason: str) -> None:
    write_settings(tmp_path, '[flags]\nrules = ["my-flags.toml"]\n')
    if content is not None:
        (tmp_path / "fleetlore" / "my-flags.toml").write_text(content)
    with pytest.raises(ConfigError, match=rf"my-flags\.toml: .*{reason}"):
        read_outcome_rules(load(tmp_path))


def test_a_project_that_was_not_approved_cannot_bring_rules(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / settings.FILE_NAME).write_text('[flags]\nrules = "flags.toml"\n')
    (tmp_path / "project" / "flags.toml").write_text(RULE)
    assert read_outcome_rules(load(tmp_path, project=tmp_path / "project")).key == default_rules().key
