"""The listings of the paper run as they were printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rillflow import algorithms, paper
from rillflow.algorithms import a3c, apex, dqn, ppo
from rillflow.experience.batch import BOOTSTRAP, SampleBatch
from rillflow.flows.flow import Flow
from rillflow.learning.config import AlgorithmConfig
from rillflow.rl.multi_agent import MultiAgentConfig
from rillflow.rl.replay_actor import ReplayActor
from rillflow.runs.train import Trained

HERE = Path(__file__).parent
A3C = ("listing_a1", "poster_a3c")
APEX = ("listing_a3", "poster_apex")
ALL = (*A3C, *APEX, "poster_multi_agent")

SMALL = {
    "hidden": (16, 16),
    "learning_starts": 64,
    "train_batch_size": 16,
    "batches_per_draw": 1,
    "target_network_update_freq": 64,
}
SLOW_ON_RAY = ("poster_apex", "plan")
"""what differs there from other listings only in what the driver does"""


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "ray":
        request.getfixturevalue("users_ray")
    return name


def listing(name: str, config: Any = None) -> Flow[dict[str, float]]:
    """What the listing returns; by default with small settings of its algorithm."""
    config = config or small(name)
    flow: Flow[dict[str, float]] = paper.load((HERE / f"{name}.txt").read_text(), config)()
    return flow


def small(name: str) -> AlgorithmConfig | MultiAgentConfig:
    if name == "poster_multi_agent":
        return two_policies(2, {"train_batch_size": 64, "sgd_minibatch_size": 32}, SMALL)
    if name in A3C:
        return a3c.Config.make(num_envs_per_worker=4)
    return apex.Config.make(num_envs_per_worker=2, max_weight_sync_delay=32, **SMALL)


def two_policies(agents: int, of_ppo: Any = None, of_dqn: Any = None) -> MultiAgentConfig:
    """Every other agent acts with the policy that PPO trains, the rest with that of DQN."""
    return MultiAgentConfig(
        env_config={"agents": agents},
        policies={"PPO": ppo.Config.make(**of_ppo or {}), "DQN": dqn.Config.make(**of_dqn or {})},
        policy_mapping=lambda agent: ("PPO", "DQN")[int(agent.split("_")[1]) % 2],
        num_envs_per_worker=32 // agents if of_ppo is None else 2,
        rollout_fragment_length=32 if of_ppo is None else 8,
    )


def workers_of(flow: Flow[Any]) -> Any:
    """The workers that the listing made: its last operator knows them."""
    return flow.node.options["fn"].workers


def learned(row: dict[str, float]) -> bool:
    """Whether the row is one of a training result."""
    return any(name.endswith("loss") for name in row)


# -- the loader -----------------------------------------------------------------------------------


def build(text: str) -> Any:
    return paper.load(text, a3c.Config())()


def test_only_printed_numbers_are_stripped() -> None:
    """Those in the code stay, and so does what is indented."""
    assert build("1 x = 3\n2 if x:\n3     x = 10 + x\n\n4\n 5 return x") == 13


def test_a_line_that_begins_with_a_dot_belongs_to_the_one_before() -> None:
    """With a backslash or without one, beyond blank lines too."""
    for text in (
        "1 x = 'a b'\n2     .upper()\n3\n4     .split()\n5 return x",
        "1 x = 'a b' \\\n 2 .upper() \\\n3 .split()\n4 return x",
    ):
        assert build(text) == ["A", "B"]


def test_the_configuration_is_that_of_workers_and_of_replay() -> None:
    """As if it were the argument of each function that makes them."""
    text = (
        "1 return create_rollout_workers(), create_replay_actors(), create_colocated(ReplayActor)"
    )
    workers, one, two = paper.load(text, apex.Config(num_workers=3, num_replay_buffer_shards=4))()
    assert (len(workers), len(one), len(two)) == (3, 4, 4)
    assert one.kwargs["capacity"] == apex.Config().buffer_size // 4


def test_replay_has_the_defaults_of_the_original() -> None:
    """If the configuration says nothing of replay."""
    actors = paper.create_colocated(ReplayActor)
    names = ("capacity", "learning_starts", "train_batch_size", "alpha", "beta")
    assert [actors.kwargs[name] for name in names] == [10_000, 1000, 512, 0.6, 0.4]


NAMES = """
ApplyGradients AverageGradients ComputeGradients ConcatBatches Concurrently Dequeue
Enqueue LearnerThread ParallelReplay ParallelRollouts Replay ReplayActor ReportMetrics
Select SelectExperiences StandardMetricsReporting StandardizeFields StoreToBuffer
StoreToReplayBuffer TrainOneStep Union UpdatePriorities UpdateReplayPriorities
UpdateTargetNetwork UpdateWeights UpdateWorkerWeights a3c_plan apex_plan create_colocated
create_replay_actors create_rollout_workers dqn_plan ppo_plan
"""


def test_each_name_of_the_paper_is_there() -> None:
    """Also where poster and appendix disagree."""
    for name in NAMES.split():
        assert callable(getattr(paper, name)), name


def test_each_algorithm_has_its_plan_there() -> None:
    """Under its own name, as the multi-agent listing writes `ppo_plan`."""
    for name in algorithms.NAMES:
        assert getattr(paper, f"{name}_plan") is algorithms.get_algorithm(name).plan


# -- every listing --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", A3C)
def test_a3c_is_the_flow_of_the_plan(name: str) -> None:
    """The listing builds what our own plan builds, with a report behind it."""
    text = listing(name).explain()
    for operator in ("ComputeGradients", "gather_async", "ApplyGradients", "Report"):
        assert operator in text


def on(name: str, engine: str) -> Any:
    """One of each on Ray are enough without the slow tests: the engine has tests of its own."""
    marks = {"sim": [], "local": [pytest.mark.proc], "ray": [pytest.mark.ray, pytest.mark.proc]}
    # the A3C of the poster is that of listing A1, spaced otherwise
    slow = name == "poster_a3c" or (engine == "ray" and name in SLOW_ON_RAY)
    return pytest.param(name, engine, marks=[*marks[engine], *[pytest.mark.slow] * slow])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "engine"),
    [on(n, e) for n in ALL for e in ("sim", "local", "ray")],
    indirect=["engine"],
)
def test_a_listing_runs(name: str, engine: str) -> None:
    """Rows of figures come out, on every engine, and the ledger balances."""
    rows: list[dict[str, float]] = []
    with listing(name).run(engine) as run:
        while sum(learned(row) for row in rows) < 10 and len(rows) < 5000:
            rows.append(next(run))
        assert run.ledger().balanced
    assert sum(learned(row) for row in rows) == 10
    assert rows[-1]["steps"] >= rows[0]["steps"] > 0


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    """On sim, asynchronous as they are."""

    def history() -> str:
        rows = listing(name).take(40, engine="sim", seed=3)
        return str([{k: v for k, v in row.items() if k != "seconds"} for row in rows])

    assert history() == history()


# -- Ape-X ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", APEX)
def test_no_branch_starves(name: str) -> None:
    """Without latencies each branch has its turn: about as many batches trained as stored."""
    with listing(name).run("sim") as run:
        while run.stats().operator("for_each(TrainOneStep)").items < 100:
            next(run)
        stored = run.stats().operator("for_each(StoreToReplayBuffer)").items
    assert 50 <= stored <= 300


@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_a_batch_is_trained_once(engine: str) -> None:
    """The poster trains in the driver: one optimiser step per training result."""
    flow = listing("poster_apex")
    workers = workers_of(flow)
    with flow.run(engine) as run:
        results = 0
        while results < 12:  # between them come rows of what was stored
            results += learned(next(run))
        learner = run.shared[workers.learner_key]
        assert learner.version == run.shared[workers.weights_key].version == results
        steps = {int(slots["step"]) for slots in learner.optimiser_state("policy").values()}
    assert steps == {results}


@pytest.mark.parametrize("engine", ["sim", pytest.param("local", marks=pytest.mark.proc)])
def test_what_the_learner_thread_trained_is_not_trained_again(engine: str) -> None:
    """`TrainOneStep` publishes it: versions are those of the thread, and there is no other."""
    flow = listing("listing_a3")
    workers = workers_of(flow)
    with flow.run(engine) as run:
        for results in range(1, 31):
            assert learned(next(run))
            assert run.shared[workers.weights_key].version == results
        assert workers.learner_key not in run.shared
        done = {balance.source: balance.done for balance in run.ledger().balances()}
    assert done["replay"]["trained"] == 30


@pytest.mark.parametrize("name", APEX)
def test_workers_are_sent_weights_after_the_delay(name: str) -> None:
    """By `max_weight_sync_delay` of the configuration, though the listing gives no number."""
    flow = listing(name)
    with flow.run("sim", trace=True) as run:
        while run.stats().operator("for_each(TrainOneStep)").items < 60:
            next(run)
        stored = run.stats().operator("for_each(StoreToReplayBuffer)").items
        actors = run._scheduler.fleet.actors.values()
        sent = [dict(a.mail.newest) for a in actors if a.name.startswith("worker")]
        told = sum(e[1] == "tell" and "worker" in str(e) for e in run.trace)
    assert all(min(versions.values()) > 0 for versions in sent)
    assert 2 < told <= 2 + stored // 2, "two fragments of 16 steps make the 32 of the delay"


@pytest.mark.parametrize("name", APEX)
def test_the_learner_sees_to_its_target_network(name: str) -> None:
    """No operator of the listing does: it changes by `target_network_update_freq`."""
    from rillflow.learning.numpy_learner import NumpyLearner

    updates: list[int] = []
    whole = NumpyLearner.update_target

    def noted(self: NumpyLearner) -> None:
        updates.append(self.version)
        whole(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyLearner, "update_target", noted)
        with listing(name).run("sim") as run:
            while run.stats().operator("for_each(TrainOneStep)").items < 12:
                next(run)
    assert updates[:3] == [4, 8, 12], "each time four batches of 16 rows were trained"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "engine"),
    [on(name, engine) for name in (*APEX, "plan") for engine in ("local", "ray")],
    indirect=["engine"],
)
def test_rollouts_never_come_into_the_driver(
    name: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go from worker to replay actor unread; weights are serialised once per version."""
    flow = _apex_plan() if name == "plan" else listing(name)
    with flow.run(engine) as run:
        read, put = _watch(type(run.engine), monkeypatch)
        results = stored = 0
        while results < 20 or stored < 5:
            row = next(run)
            results += name == "plan" or learned(row)
            stored = run.stats().operator("for_each(StoreToReplayBuffer)").items
        # the first weights were put before we began to watch
        assert len({id(weights) for weights in put}) == len(put) <= results
    on_thread = name != "plan"  # the plan's learner is an actor: nothing comes here at all
    assert any("keys" in batch for batch in read) == on_thread, "who trains reads the batches"
    assert not any(BOOTSTRAP in batch for batch in read)


def _apex_plan() -> Flow[Any]:
    workers = paper.create_rollout_workers(small("poster_apex"))  # type: ignore[call-overload]
    return paper.apex_plan(paper.ParallelRollouts(workers), workers)


def _watch(kind: type, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """Batches that the driver reads from now on, and weights that it serialises."""
    from rillflow.engines import local_memory, packing, ray

    read: list[Any] = []
    put: list[Any] = []
    for module in (ray, packing, local_memory):
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__name__.endswith("Ref") and "get" in vars(cls):
                monkeypatch.setattr(cls, "get", _noted(cls.get, read))  # type: ignore[attr-defined]
    original = kind.put  # type: ignore[attr-defined]

    def counted(self: Any, value: Any) -> Any:
        if isinstance(value, dict) and all(isinstance(w, np.ndarray) for w in value.values()):
            put.append(value)
        return original(self, value)

    monkeypatch.setattr(kind, "put", counted)
    return read, put


def _noted(get: Any, read: list[Any]) -> Any:
    def noting(self: Any) -> Any:
        value = get(self)
        parts = value if isinstance(value, tuple | list) else (value,)
        read.extend(part for part in parts if isinstance(part, SampleBatch))
        return value

    return noting


# -- they learn -----------------------------------------------------------------------------------


def best_return(flow: Flow[dict[str, float]], limit: int, *policies: str) -> float:
    """The best mean of 100 episodes, of the policy that does worst, within `limit` steps."""
    best = 0.0
    names = [f"{policy}/return" for policy in policies] or ["return"]
    with flow.run("local", seed=0) as run:
        for row in run:
            best = max(best, min(np.nan_to_num(row[name]) for name in names))
            if best >= 450 or row["steps"] > limit:
                break
    return best


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(300)
def test_a3c_listing_learns() -> None:
    """On processes the mean return of 100 episodes reaches 450."""
    assert best_return(listing("listing_a1", a3c.Config()), 400_000) >= 450


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        # as many batches are trained as fragments are stored, so they are large
        ("poster_apex", {"train_batch_size": 256}),
        # nothing holds the workers back while the learner trains, so they have few environments
        ("listing_a3", {"num_envs_per_worker": 2}),
    ],
)
def test_apex_listing_learns(name: str, settings: dict[str, Any]) -> None:
    """On processes, unthrottled as the listing is: 20 greedy episodes reach a mean of 450."""
    flow = listing(name, apex.Config(**settings))
    workers = workers_of(flow)
    best, look = 0.0, 10_000.0
    with flow.run("local", seed=0) as run:
        for row in run:
            if row["steps"] >= look:
                look = row["steps"] + 10_000
                best = max(best, greedy_return(workers, run.shared[workers.weights_key].weights))
            if best >= 450 or row["seconds"] > 400:
                break
    print(f"{name}: {best} after {row['steps']} steps and {row['seconds']:.0f} s")
    assert best >= 450


def greedy_return(workers: Any, weights: Any) -> float:
    """Mean of 20 whole episodes."""
    return float(np.mean(Trained(workers.config, workers.spec, weights, []).evaluate(20)))


@pytest.mark.slow
@pytest.mark.proc
@pytest.mark.timeout(600)
@pytest.mark.parametrize("agents", [2, 8])
def test_multi_agent_listing_learns(agents: int) -> None:
    """Both policies reach a mean of 450 over 100 training episodes; one or four agents each."""
    assert (
        best_return(listing("poster_multi_agent", two_policies(agents)), 400_000, "PPO", "DQN")
        >= 450
    )
