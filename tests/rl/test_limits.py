"""What a worker may take of time and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rillflow as rf
from rillflow.algorithms import ppo
from rillflow.learning.fault_settings import bytes_of
from rillflow.rl import limits
from rillflow.rl.faults import learner_policy, worker_policy
from rillflow.rl.limits import Limits
from rillflow.types import ActorInfo

HERE = ActorInfo("worker-0", 0, 0, seed=1, engine="local")


def test_a_worker_that_has_grown_asks_to_be_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its next rollout: the one that it has made is delivered."""
    size = 100 << 20
    monkeypatch.setattr(limits, "resident", lambda: size)
    own = Limits(ppo.Config.make(worker_memory="200MiB"), HERE)
    own.before_rollout()
    own.after_rollout()
    own.before_rollout()
    size = 250 << 20
    own.after_rollout()
    with pytest.raises(rf.Recycle, match="250 MiB of memory, with worker_memory=200 MiB"):
        own.before_rollout()


def test_a_limit_that_no_worker_can_keep_is_told() -> None:
    own = Limits(ppo.Config.make(worker_memory=1000), HERE)
    with pytest.raises(rf.BuildError, match=r"uses .* MiB after its first rollout.*Allow more"):
        own.after_rollout()


def test_there_are_no_limits_where_a_process_has_others_in_it() -> None:
    config = ppo.Config.make(worker_memory=1000, env_timeout=0.001)
    own = Limits(config, ActorInfo("worker-0", 0, 0, seed=1, engine="sim"))
    own.after_rollout()
    assert own.timed(bytes_of) is bytes_of


GROWS = """
from rillflow.rl.limits import resident
before = resident()
held = bytearray(b"1") * (50 << 20)
print(resident() - before)
"""


def test_the_size_of_a_process() -> None:
    """Asked in a small process: of one that holds much, the system takes pages away meanwhile."""
    done = subprocess.run([sys.executable, "-c", GROWS], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 40 << 20


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2 << 30), ("1.5 GB", 1_500_000_000), ("300m", 300_000_000), ("77", 77), (5, 5)],
)
def test_sizes_are_read_as_people_write_them(text: str | int, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"on_failure": "restrt"}, "on_failure must be one of 'restart'"),
        ({"max_restarts": -1}, "max_restarts must be at least 0"),
        ({"worker_timeout": -1.0}, "worker_timeout must be 0 or above, or None"),
        ({"env_timeout": float("nan")}, "env_timeout must be 0 or above, or None"),
        ({"worker_memory": "2 boxes"}, "a size such as '2GiB' or '500MB', got '2 boxes'"),
        ({"worker_memory": 0}, "worker_memory must be above 0"),
        ({"env_timeout": 1.0, "num_workers": 0}, "env_timeout end a worker's process"),
    ],
)
def test_settings_that_cannot_work_are_told(settings: dict[str, object], told: str) -> None:
    with pytest.raises(rf.BuildError, match=told):
        ppo.Config.make(**settings)


@pytest.mark.parametrize(
    ("reaction", "lost"),
    [
        ("restart", "restart"), ("retry", "restart"), ("drop", "restart"), ("shrink", "shrink"),
        ("raise", "raise"),
    ],
)  # fmt: skip
def test_what_becomes_of_who_is_lost(reaction: str, lost: str) -> None:
    config = ppo.Config.make(on_failure=reaction)
    policy = worker_policy(config)
    assert (policy.on_error, policy.on_lost) == (reaction, lost)
    assert isinstance(policy.timeout, rf.Adaptive)
    assert worker_policy(ppo.Config.make(worker_timeout=0.0)).timeout is None
    comes_back = learner_policy(config, "process").on_lost == "restart"
    assert comes_back == (reaction != "raise")
    assert learner_policy(config, "thread").on_lost == "raise"
