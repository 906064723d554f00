"""What is said of each algorithm: its graph, plan, settings and measured learning curve."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import runpy
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

from rillflow.algorithms import NAMES, get_algorithm
from rillflow.learning.config import AlgorithmConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
CURVES = Path(__file__).parents[1] / "pictures" / "curves"
TITLES = {
    "a2c": "A2C",
    "a3c": "A3C",
    "apex": "Ape-X",
    "apex_ddpg": "Ape-X-DDPG",
    "appo": "APPO",
    "async_dqn": "Asynchronous DQN",
    "bc": "BC",
    "cql": "CQL",
    "ddpg": "DDPG",
    "dqn": "DQN",
    "impala": "IMPALA",
    "iql": "IQL",
    "maml": "MAML",
    "marwil": "MARWIL",
    "pg": "PG",
    "ppo": "PPO",
    "r2d2": "R2D2",
    "rainbow": "Rainbow",
    "sac": "SAC",
    "simple_q": "Simple Q",
    "td3": "TD3",
}
ORDER = (
    *("ppo", "a2c", "a3c", "impala", "appo", "pg"),
    *("dqn", "rainbow", "apex", "r2d2", "simple_q", "async_dqn"),
    *("sac", "td3", "ddpg", "apex_ddpg", "maml"),
    *("bc", "marwil", "cql", "iql"),
)
KINDS = {
    "ppo": ("policy gradient", "rounds"),
    "a2c": ("policy gradient", "rounds"),
    "a3c": ("policy gradient", "as ready, gradients in workers"),
    "impala": ("policy gradient", "as ready, learner process"),
    "appo": ("policy gradient", "as ready, learner process"),
    "pg": ("policy gradient", "rounds"),
    "dqn": ("q learning", "rounds into replay"),
    "rainbow": ("q learning", "rounds into replay"),
    "apex": ("q learning", "as ready into replay actors, learner process"),
    "r2d2": ("q learning", "as ready into replay actors, learner process"),
    "simple_q": ("q learning", "rounds into replay"),
    "async_dqn": ("q learning", "as ready, gradients in workers"),
    "sac": ("actor and critics", "rounds into replay"),
    "td3": ("actor and critics", "rounds into replay"),
    "ddpg": ("actor and critic", "rounds into replay"),
    "apex_ddpg": ("actor and critic", "as ready into replay actors, learner process"),
    "maml": ("meta-learning", "rounds, workers adapt between them"),
    "bc": ("imitation", "rounds of recorded data"),
    "marwil": ("imitation", "rounds of recorded data"),
    "cql": ("actor and critics", "rounds of recorded data"),
    "iql": ("actor and critics", "rounds of recorded data"),
}
CURVES_BESIDE = {"sac": ("sac_discrete",)}
"""further curves of an algorithm"""
ACTIONS = {
    "q learning": "discrete",
    "actor and critics": "continuous",
    "actor and critic": "continuous",
    "sac": "discrete, continuous",
}
assert set(ORDER) == set(NAMES) == set(KINDS)


@cache
def flow_of(name: str) -> Any:
    """The flow of an algorithm with its default settings."""
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import create_rollout_workers

    module = get_algorithm(name)
    workers = create_rollout_workers(module.Config())
    return module.plan(ParallelRollouts(workers), workers)


def pictures() -> dict[str, str]:
    """The drawing of each algorithm's flow, as SVG."""
    flows = {name: flow_of(name).to_svg() for name in NAMES}
    frequencies = runpy.run_path(str(EXAMPLES / "own_frequencies.py"))["flow"].to_svg()
    return flows | {"two_policies": _two_policies(), "own_frequencies": frequencies}


def _two_policies() -> str:
    from rillflow.algorithms import dqn, ppo
    from rillflow.flows.merge import Union
    from rillflow.rl.multi_agent import MultiAgentConfig, Select
    from rillflow.rl.rollouts import ParallelRollouts
    from rillflow.rl.workers import create_rollout_workers

    config = MultiAgentConfig(
        env_config={"agents": 2},
        policies={"PPO": ppo.Config(), "DQN": dqn.Config()},
        policy_mapping={"agent_0": "PPO", "agent_1": "DQN"},
    )
    workers = create_rollout_workers(config)
    r1, r2 = ParallelRollouts(workers).split()
    ppo_op = ppo.plan(Select(r1, policy="PPO"), workers)
    return Union(ppo_op, dqn.plan(Select(r2, policy="DQN"), workers)).to_svg()


def table(folder: str = "") -> str:
    """All of them, a line each; their pages are in `folder`."""
    rows = [
        "| algorithm | learns by | experience comes | lines of plan | actions | memory |",
        "|---|---|---|---|---|---|",
    ]
    for name in ORDER:
        module = get_algorithm(name)
        by, how = KINDS[name]
        actions = ACTIONS.get(name, ACTIONS.get(by, "discrete, continuous"))
        memory = "LSTM, GRU" if module.recurrent else ""
        lines = plan_lines(module)
        title = f"[{TITLES[name]}]({folder}{name}.md)"
        rows.append(f"| {title} `{name}` | {by} | {how} | {lines} | {actions} | {memory} |")
    return "\n".join(rows)


def plan_lines(module: Any) -> int:
    """Statements' lines of a plan: without its signature, docstring and blank lines."""
    source = textwrap.dedent(inspect.getsource(module.plan))
    body = ast.parse(source).body[0].body[1:]  # type: ignore[attr-defined]
    lines = source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
    return sum(1 for line in lines if line.strip())


def page(name: str) -> str:
    """Everything about an algorithm that follows from its code and its measured runs."""
    module = get_algorithm(name)
    picture = f"../pictures/flows/{name}.svg"
    pieces = [
        "## The dataflow",
        f"[![The dataflow of {TITLES[name]}]({picture}){{ .flow }}]({picture})",
        f"What `rillflow explain {name}` prints:",
        f"```text\n{flow_of(name).explain()}\n```",
        "## The plan",
        f"```python\n{inspect.getsource(module.plan).strip()}\n```",
        _folded("The networks", inspect.getsource(module.modules)),
        _folded("The update", inspect.getsource(module.update)),
        "## Learning",
        learning(name),
        *(learning(beside) for beside in CURVES_BESIDE.get(name, ())),
        "## Settings",
        settings(module.Config),
        *suited(module),
    ]
    return "\n\n".join(pieces)


def _folded(title: str, source: str) -> str:
    listing = textwrap.indent(f"```python\n{source.strip()}\n```", "    ")
    return f'??? example "{title}"\n\n{listing}'


# -- what was measured ----------------------------------------------------------------------------


def learning(name: str) -> str:
    """The curve and its figures, as `docs/make_curves.py` measured them."""
    file = CURVES / f"{name}.json"
    if not file.exists():
        return "Not measured yet: `python docs/make_curves.py`."
    about = json.loads(file.read_text(encoding="utf-8"))
    runs = about["runs"]
    seeds = ", ".join(str(run["seed"]) for run in runs)
    goal = about["until"].get("return")
    steps = about["until"]["steps"]
    until = f"a return of {goal} or {steps:,} steps" if goal else f"{steps:,} steps"
    what = (
        "The return is the mean of the last 100 episodes of training, exploration included."
        if "data" not in about
        else f"It learned from {about['data']}; a step is a row, and the curve that of evaluations."
    )
    cores = about["machine"]["cores"]
    gpus = "no GPU" if not about["machine"]["gpus"] else f"{about['machine']['gpus']} GPUs"
    versions = about["versions"]
    text = [
        f"![Learning curve](../pictures/curves/{name}.svg){{ .curve }}",
        f"Trained on `{about['env']}` until {until}, with the settings that it begins with there, "
        f"on the `sim` engine, seed{'s'[: len(runs) > 1]} {seeds}. {what}",
        _figures(name, runs),
        f"Measured on {cores} shared cores, {gpus}, Python {versions['python']}, torch "
        f"{versions['torch']}. The curves follow from the seeds; the seconds are this machine's, "
        "on one thread, with other programs running. To measure them again:",
        f"```sh\nOMP_NUM_THREADS=1 python docs/make_curves.py {name}\n```",
    ]
    return "\n\n".join(text)


def _figures(name: str, runs: list[dict[str, Any]]) -> str:
    if name == "maml":
        head = "| seed | steps | seconds | before adapting | 1 step | 2 steps | 3 steps |"
        rows = [
            f"| {run['seed']} | {run['steps']:,} | {run['seconds']:.0f} | "
            + " | ".join(f"{value:.2f}" for value in run["adaptation"])
            + " |"
            for run in runs
        ]
        note = (
            "Returns on the right: means over 20 tasks that were never seen in training, before "
            "and after steps of adaptation, each from one round of episodes."
        )
        return "\n".join([head, "|---" * 7 + "|", *rows, "", note])
    head = "| seed | steps | updates | seconds | return at the end | greedy, 20 episodes |"
    rows = [
        f"| {run['seed']} | {run['steps']:,} | {run['updates']:,} | {run['seconds']:.0f} | "
        f"{run['return']:.1f} | {run['greedy']:.1f} |"
        for run in runs
    ]
    return "\n".join([head, "|---" * 6 + "|", *rows])


# -- settings -------------------------------------------------------------------------------------


def settings(config: type[AlgorithmConfig]) -> str:
    """Two tables: what is the algorithm's own, and what every algorithm has."""
    shared = {field.name for field in dataclasses.fields(AlgorithmConfig)}
    every = dataclasses.fields(config)
    own = [field for field in every if field.name not in shared]
    rest = [field for field in every if field.name in shared]
    pieces = ["Fields of its `Config`; on the command line `--name-with-hyphens`."]
    if own:
        pieces.append(_table(config, own))
    pieces.append(
        "Settings that every algorithm has, with the defaults of this one (in bold where they "
        "differ from the usual ones):"
    )
    pieces.append(_table(config, rest))
    return "\n\n".join(pieces)


_FAMILIES = {
    "atari": "Atari games",
    "atari-gpu": "Atari games that a GPU learns, besides",
    "memory": "with a memory",
}


def suited(module: Any) -> list[str]:
    """What an algorithm begins with in environments that its defaults do not suit."""
    table = module.tuned
    if not table:
        return []
    lines = [
        "Where these defaults do not suit, `rf.train`, `Config(env=...)` and the command line "
        "begin with others; what you say yourself wins:",
        "",
    ]
    for env, values in table.items():
        name = _FAMILIES.get(env, f"`{env}`")
        told = ", ".join(_told(key, value) for key, value in values.items())
        lines.append(f"- {name}: {told}")
    return ["\n".join(lines)]


def _told(setting: str, value: object) -> str:
    if setting == "num_learner_threads":  # this machine's, not the reader's
        return f"`{setting}` as many as there are cores"
    return f"`{setting}={value!r}`"


def _table(config: type, fields: list[Any]) -> str:
    documents = field_documents(config)
    usual = {field.name: _default(field) for field in dataclasses.fields(AlgorithmConfig)}
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for field in fields:
        default = _default(field)
        shown = f"`{default}`"
        if usual.get(field.name, default) != default:
            shown = f"**{shown}**"
        meaning = documents.get(field.name, "").replace("|", "\\|")
        rows.append(f"| `{field.name}` | {shown} | {meaning} |")
    return "\n".join(rows)


def _default(field: Any) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    return repr(field.default)


def field_documents(config: type) -> dict[str, str]:
    """The string literal under each field, of the class or of the nearest base that has one."""
    found: dict[str, str] = {}
    for cls in reversed(config.__mro__):
        if dataclasses.is_dataclass(cls):
            found |= _documents(cls)
    return found


def _documents(cls: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
