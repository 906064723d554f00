"""`rillflow bench --profile`: the table adds up, and each kind of advice fits its cause."""

from __future__ import annotations

import json
import time

import pytest

from rillflow.algorithms import a3c, dqn, get_algorithm, ppo
from rillflow.cli.output.advice import advise
from rillflow.cli.output.profile import STAGES, Profile, device_table, measure, table
from rillflow.learning import torch_learner
from rillflow.learning.device_clock import DeviceClock
from rillflow.scheduler.stats import RunStats
from rillflow.scheduler.times import TimeShare


def stats(*lines: TimeShare) -> RunStats:
    return RunStats(10.0, [], [], "", 0.0, {}, list(lines))


TRAINING = TimeShare("for_each(TrainOneStep)", "driver", "operator", 40, 8.0, 0.8)
WAITING = TimeShare("waiting for rollouts", "driver", "waiting", 80, 1.5, 0.15)
MESSAGES = TimeShare("sending and receiving", "driver", "messages", 0, 0.4, 0.04)
REST = TimeShare("scheduling", "driver", "rest", 0, 0.1, 0.01)
SAMPLING = TimeShare("rollouts", "worker", "operator", 80, 4.0, 0.2)
POLICY = TimeShare("policy", "worker", "operator", 0, 3.0, 0.15, part_of="rollouts")


def test_table_adds_up() -> None:
    lines = table(stats(TRAINING, WAITING, MESSAGES, REST, SAMPLING, POLICY))
    told = [line.split() for line in lines]
    assert told[0] == ["driver", "calls", "seconds", "share"]
    assert told[1] == ["for_each(TrainOneStep)", "40", "8.000", "80.0%"]
    assert ["sum", "9.900", "99.0%"] in told
    assert ["not", "attributed", "(scheduling)", "0.100", "1.0%"] in told
    assert ["the", "rest", "of", "it", "1.000", "5.0%"] in told


def test_a_device_has_a_table_of_its_own() -> None:
    """Ten batches a second, of which copies take 1 ms each and learning 40."""
    device = dict(zip(STAGES, (1.0, 40.0, 5.0, 36.0), strict=True))
    lines = device_table(Profile(5.0, 1000.0, 10.0, stats(TRAINING), device))
    told = [line.split()[-2:] for line in lines[2:]]
    assert told == [["1.00", "1.0%"], ["40.00", "40.0%"], ["5.00", "5.0%"], ["36.00", "36.0%"]]
    assert device_table(Profile(5.0, 1000.0, 10.0, stats(TRAINING))) == []


@pytest.mark.proc
@pytest.mark.parametrize("there", [False, True])
def test_a_profile_has_what_the_learner_told_of_its_device(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in that measures the processor; without one nothing is said of a device."""
    if there:
        monkeypatch.setattr(torch_learner, "clock_of", lambda device: DeviceClock(Mark, every=2))
    config = ppo.Config(num_workers=1, num_envs_per_worker=2, framework="torch")
    found = measure(get_algorithm("ppo"), config, 2.0)
    assert found.device.keys() == (STAGES.keys() if there else set())
    assert all(spent >= 0 for spent in found.device.values())


class Mark:
    """A mark in the queue of a device that is done at once."""

    def __init__(self) -> None:
        self.at = time.perf_counter()

    def query(self) -> bool:
        return True

    def elapsed_time(self, later: Mark) -> float:
        return 1000 * (later.at - self.at)


def larger(line: TimeShare) -> RunStats:
    return stats(TimeShare(line.name, "driver", line.kind, 1, 9.0, 0.9), WAITING, REST)


def test_learner_is_given_larger_steps() -> None:
    advice = advise(larger(TRAINING), ppo.Config(sgd_minibatch_size=256), cores=2)
    assert advice.bound == "learner"
    assert advice.settings == {"sgd_minibatch_size": 1024}
    assert str(advice).endswith("more workers will not help: --sgd-minibatch-size 1024")
    assert (
        "90% of the driver's time goes into learning, most of it into for_each(TrainOneStep)"
        in (str(advice))
    )
    batches = advise(larger(TRAINING), dqn.Config(train_batch_size=64))
    assert batches.settings == {"train_batch_size": 256}
    gradients = TimeShare("for_each(ApplyGradients)", "driver", "operator", 1, 9.0, 0.9)
    assert advise(larger(gradients), a3c.Config()).settings == {"num_envs_per_worker": 128}


def test_learner_on_its_own_thread_is_the_learner_too() -> None:
    waiting = TimeShare("waiting for background(learner)", "driver", "waiting", 1, 9.0, 0.9)
    assert advise(larger(waiting), dqn.Config()).bound == "learner"


def test_learner_that_never_rests_is_the_limit_whatever_the_driver_waits_for() -> None:
    busy = TimeShare("background(learner)", "learner", "operator", 1, 9.1, 0.91)
    advice = advise(stats(*larger(WAITING).times, busy), dqn.Config(train_batch_size=64))
    assert advice.settings == {"train_batch_size": 256}
    assert str(advice).startswith("learner-bound: background(learner) works 91% of the time.")
    rested = TimeShare("background(learner)", "learner", "operator", 1, 5.0, 0.5)
    assert advise(stats(*larger(WAITING).times, rested), dqn.Config()).bound == "sampling"


def test_sampling_is_given_the_cores_there_are_and_then_more_environments() -> None:
    config = ppo.Config(num_workers=1, num_envs_per_worker=8)
    assert advise(larger(WAITING), config, cores=4).settings == {"num_workers": 4}
    assert advise(larger(WAITING), config, cores=1).settings == {"num_envs_per_worker": 32}


def test_messages_are_made_fewer() -> None:
    advice = advise(larger(MESSAGES), ppo.Config(rollout_fragment_length=8))
    assert advice.bound == "message"
    assert advice.settings == {"rollout_fragment_length": 32}


@pytest.mark.proc
def test_profile_tells_where_the_time_of_an_algorithm_goes(call) -> None:
    done = call("bench", "--profile", "ppo", "CartPole-v1", "--seconds", "0.5", "--json",
                "--num-workers", "1", "--num-sgd-iter", "2")  # fmt: skip
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["attributed"] > 0.8
    assert told["steps_per_second"] > 0
    names = {line["name"] for line in told["times"]}
    assert {"for_each(TrainOneStep)", "waiting for rollouts", "policy", "environments"} <= names
    assert told["advice"]["bound"] in ("learner", "sampling", "message")
    own = [x for x in told["times"] if x["where"] == "driver" and x["part_of"] is None]
    assert sum(line["seconds"] for line in own) == pytest.approx(told["seconds"], rel=0.01)
