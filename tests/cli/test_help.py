"""Help is quick, complete and readable."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from importlib import import_module

import pytest

from rillflow.algorithms import NAMES, get_algorithm
from rillflow.cli.commands import COMMANDS
from rillflow.cli.flags.settings import settings_of
from tests.cli.conftest import environment

_HEAVY = ("torch", "ray", "gymnasium", "numpy", "rich", "optuna", "tensorboard", "matplotlib")


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], ()),
        (["--version"], ()),
        (["trian"], ()),
        (["list"], ()),
        (["bench"], ()),
        (["train", "--help"], ()),
        (["evaluate", "--help"], ()),
        (["train", "ppo", "--help"], ("numpy", "gymnasium")),
        (["explain", "apex"], ("numpy", "gymnasium")),
        (["train", "ppo", "CartPole-v1", "--num-worker", "3"], ("numpy", "gymnasium")),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_early(arguments: list[str], allowed: tuple[str, ...]) -> None:
    """Seconds depend on the machine; what is imported does not."""
    code = (
        "import sys\nfrom rillflow.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        f"print('\\n' + ' '.join(m for m in {_HEAVY!r} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert set(done.stdout.splitlines()[-1].split()) <= set(allowed)


def test_ctrl_c_is_heard_before_anything_is_imported() -> None:
    """The program is a few modules until it listens; a Ctrl-C in any later import says nothing."""
    code = """
import sys
from rillflow.cli.main import program
print(*(name for name in sys.modules if name.partition(".")[0] == "rillflow"))
when = sys.argv.pop()
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == when:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
sys.exit(program())
"""
    for when in (
        "difflib",
        "rillflow.cli.commands",
        "rillflow.errors",
        "rillflow.cli.commands.list",
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, "list", when],
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (130, ""), when
        first = done.stdout.split()
        assert set(first) == {
            "rillflow", "rillflow.safety", "rillflow.safety.safe_path", "rillflow.deprecated",
            "rillflow.cli", "rillflow.cli.main",
        }  # fmt: skip


def test_help_names_every_command_and_each_has_its_file(call) -> None:
    text = call("--help").out
    for command in COMMANDS:
        assert f"\n  {command} " in text
        module = command.replace("-", "_")
        assert callable(import_module(f"rillflow.cli.commands.{module}").main)
    assert call().out == call("help").out == text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, call) -> None:
    done = call(command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: rillflow {command}")
    assert max(map(len, done.out.splitlines())) <= 100
    assert call("help", command).out == done.out


@pytest.mark.parametrize("algorithm", NAMES)
def test_every_setting_of_every_algorithm_is_a_flag_with_help_and_default(
    algorithm: str, call
) -> None:
    text = " ".join(call("train", algorithm, "--help").out.split())
    config = get_algorithm(algorithm).Config
    settings = settings_of(config)
    assert {s.name for s in settings} == {f.name for f in dataclasses.fields(config)} - {"env"}
    for setting in settings:
        assert setting.help, f"{setting.name} has no line under it in the source"
        assert f"{setting.flag} " in text or f"{setting.flag}," in text
        assert f"(default {setting.shown_default})" in text


def test_help_of_an_algorithm_is_grouped(call) -> None:
    text = call("train", "dqn", "--help").out
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[:5] == ["arguments:", "options:", "the run:", "checkpoints:", "what to show:"]
    general = ["rollouts:", "evaluation:", "faults:", "learning:", "network:"]
    assert titles[-5:] == general
    assert "--double-q, --no-double-q" in text


def test_without_an_algorithm_train_says_where_the_settings_are(call) -> None:
    assert "`rillflow train ppo --help` shows the settings of PPO" in call("train", "--help").out
