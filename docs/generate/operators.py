"""The reference of operators: signatures and docstrings of the code, and examples that run."""

from __future__ import annotations

import doctest
import inspect
import re
from importlib import import_module
from typing import Any

from docs.generate.examples import EXAMPLES, PREAMBLE

# group -> (where it is, the name to write)
GROUPS: dict[str, tuple[str, list[str]]] = {
    "Sources": (
        "Where a stream comes from. Rollout workers, replay actors and queues are streams like any "
        "other.",
        [
            "rillflow.rl.rollouts:ParallelRollouts",
            "rillflow.rl.replay:ParallelReplay",
            "rillflow.rl.replay:Replay",
            "rillflow.flows.queues:Dequeue",
            "rillflow.flows.sources:from_actors",
            "rillflow.flows.sources:from_items",
            "rillflow.flows.sources:from_range",
            "rillflow.flows.sources:from_iterators",
        ],
    ),
    "Actors": (
        "Handles of what will live while a flow runs. Creating one starts nothing.",
        [
            "rillflow.rl.workers:create_rollout_workers",
            "rillflow.rl.replay:create_replay_actors",
            "rillflow.graph.handles:Actors.of",
            "rillflow.graph.handles:Queue",
            "rillflow.graph.handles:Background",
            "rillflow.rl.learner_thread:LearnerThread",
        ],
    ),
    "Transformation": (
        "One item in, any number out. Before a gather they run inside the actors, a copy for each "
        "shard; behind it, in the driver.",
        [
            "rillflow.flows.flow:Flow.for_each",
            "rillflow.flows.parallel:ParallelFlow.par_for_each",
            "rillflow.flows.flow:Flow.filter",
            "rillflow.flows.flow:Flow.batch",
            "rillflow.flows.flow:Flow.flatten",
            "rillflow.flows.flow:Flow.combine",
            "rillflow.flows.flow:Flow.shuffle",
            "rillflow.flows.flow:Flow.repeat",
            "rillflow.flows.flow:Flow.limit",
            "rillflow.flows.flow:Flow.zip_with_source_actor",
            "rillflow.flows.parallel:ParallelFlow.repartition",
            "rillflow.rl.rollouts:ConcatBatches",
            "rillflow.rl.rollouts:StandardizeFields",
            "rillflow.rl.multi_agent:Select",
            "rillflow.rl.multi_agent:SelectExperiences",
        ],
    ),
    "Sequencing": (
        "From a parallel flow to one sequence in the driver. This is where synchronous and "
        "asynchronous algorithms part.",
        [
            "rillflow.flows.parallel:ParallelFlow.gather_sync",
            "rillflow.flows.parallel:ParallelFlow.gather_async",
            "rillflow.flows.parallel:ParallelFlow.batch_across_shards",
        ],
    ),
    "Staleness": (
        "How old an item may be, in versions of the weights that it was made with. Used in the "
        "order of submission, what `admit` lets through is never older than its bound; in the "
        "order of completion it is so on average only: in a simulation of 16 workers with a bound "
        "of 1 the oldest item was 46 versions old. And whoever drops what is old drops what took "
        "long: `fresh` reports the lengths of both.",
        [
            "rillflow.flows.flow:Flow.admit",
            "rillflow.flows.flow:Flow.fresh",
        ],
    ),
    "Concurrency": (
        "Several branches in one program.",
        [
            "rillflow.flows.flow:Flow.split",
            "rillflow.flows.merge:Union",
            "rillflow.flows.merge:Concurrently",
            "rillflow.flows.queues:Enqueue",
        ],
    ),
    "Learning": (
        "Operators that train, and that carry what was learned to whoever needs it.",
        [
            "rillflow.rl.train:TrainOneStep",
            "rillflow.rl.train:ComputeGradients",
            "rillflow.rl.train:AverageGradients",
            "rillflow.rl.train:ApplyGradients",
            "rillflow.rl.weights:UpdateWorkerWeights",
            "rillflow.rl.replay:StoreToReplayBuffer",
            "rillflow.rl.replay:UpdateReplayPriorities",
            "rillflow.rl.replay:UpdateTargetNetwork",
            "rillflow.rl.meta:InnerAdapt",
            "rillflow.rl.meta:MetaUpdate",
        ],
    ),
    "Reporting and running": (
        "The end of a flow.",
        [
            "rillflow.rl.metrics:ReportMetrics",
            "rillflow.flows.flow:Flow.run",
            "rillflow.flows.flow:Flow.take",
            "rillflow.flows.flow:Flow.check",
            "rillflow.flows.flow:Flow.explain",
            "rillflow.flows.flow:Flow.to_svg",
        ],
    ),
}


def found(path: str) -> Any:
    """The object behind `module:name` or `module:Class.method`."""
    module, _, name = path.partition(":")
    thing: Any = import_module(module)
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def paper_names() -> dict[int, list[str]]:
    """The paper's other spellings, by the object they stand for."""
    from rillflow import paper

    spellings: dict[int, list[str]] = {}
    for name, thing in vars(paper).items():
        own = getattr(thing, "__name__", name)
        if name[0].isupper() and own != name and callable(thing) and not name.startswith("_"):
            spellings.setdefault(id(thing), []).append(name)
    return spellings


def reference() -> str:
    """All groups."""
    others = paper_names()
    pieces = [_overview(others), f"{_BEGIN}\n\n```python\n{PREAMBLE.strip()}\n```"]
    for title, (about, paths) in GROUPS.items():
        pieces += [f"## {title}", about]
        pieces += [entry(path, others) for path in paths]
    return "\n\n".join(pieces)


def _overview(others: dict[int, list[str]]) -> str:
    rows = ["| group | operators |", "|---|---|"]
    for title, (_, paths) in GROUPS.items():
        links = ", ".join(f"[`{_short(path)}`](#{_anchor(path)})" for path in paths)
        rows.append(f"| {title} | {links} |")
    spelled = ["| in the paper | here |", "|---|---|"]
    for paths in (paths for _, paths in GROUPS.values()):
        for path in paths:
            for name in others.get(id(found(path)), []):
                spelled.append(f"| `{name}` | [`{_short(path)}`](#{_anchor(path)}) |")
    spelled.append(
        "| `create_colocated(ReplayActor)` | [`create_replay_actors`](#create_replay_actors) |"
    )
    spelled.append("| `duplicate` | [`split`](#split) |")
    return "\n".join(rows) + "\n\n" + _SPELLINGS + "\n\n" + "\n".join(spelled)


_SPELLINGS = """\
The paper spells some operators differently on its poster and in its appendix. Those spellings are
in `rillflow.paper`, which also loads the printed listings and runs them as they are:"""


_BEGIN = """\
All examples are run by the tests. Those of a docstring know the names of their own module, that of
the import line above them; the others begin with these lines:"""


def entry(path: str, others: dict[int, list[str]]) -> str:
    """One operator: name, where to import it, what it does, an example."""
    thing, name = found(path), _short(path)
    lines = [f"### {name} {{ #{_anchor(path)} }}", f"```python\n{signature(path)}\n```"]
    spellings = others.get(id(thing), [])
    told = [f"In the paper also `{other}`." for other in spellings]
    if "Flow." in path:
        kind = path.partition(":")[2].partition(".")[0]
        told.append(f"A method of `{kind}`{_both(path)}.")
    elif path.endswith("Actors.of"):
        told.append("`from rillflow import Actors`")
    else:
        module = "rillflow" if _is_core(name) else path.partition(":")[0]
        told.append(f"`from {module} import {name}`")
    lines.append(" ".join(told))
    text = inspect.getdoc(thing) or ""
    lines.append(rendered(text))
    if name in EXAMPLES and ">>>" not in text:
        lines.append(f"```pycon\n{EXAMPLES[name].strip()}\n```")
    return "\n\n".join(lines)


def _both(path: str) -> str:
    """Whether the other kind of flow has it too."""
    name = path.rpartition(".")[2]
    other = "ParallelFlow" if "flow:Flow" in path else "Flow"
    module = "rillflow.flows.parallel" if other == "ParallelFlow" else "rillflow.flows.flow"
    theirs = getattr(found(f"{module}:{other}"), name, None)
    refused = theirs is not None and (inspect.getdoc(theirs) or "").startswith("Refused")
    return f" and of `{other}`" if theirs is not None and not refused else ""


def _short(path: str) -> str:
    name = path.partition(":")[2]
    return name if name == "Actors.of" else name.rpartition(".")[2]


def _anchor(path: str) -> str:
    return _short(path).replace(".", "-").lower()


def _is_core(name: str) -> bool:
    import rillflow

    return hasattr(rillflow, name)


def signature(path: str) -> str:
    """How it is called, without `self` and without the return type."""
    thing, name = found(path), _short(path)
    parameters = list(inspect.signature(thing).parameters.values())
    parts: list[str] = []
    starred = False
    for parameter in parameters:
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        parts.append(_parameter(parameter))
    call = f".{name}" if "Flow." in path else name
    line = f"{call}({', '.join(parts)})"
    if len(line) <= 88:
        return line
    return f"{call}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    note = parameter.annotation
    text = f"{stars}{parameter.name}"
    if note is not parameter.empty:
        text += f": {note if isinstance(note, str) else getattr(note, '__name__', note)}"
    if parameter.default is not parameter.empty:
        text += f" = {parameter.default!r}"
    return text


def rendered(docstring: str) -> str:
    """A docstring as Markdown: examples and indented blocks become listings."""
    pieces = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if paragraph.startswith(">>>"):
            code = re.sub(r"\s*# doctest:.*", "", paragraph)
            pieces.append(f"```pycon\n{code}\n```")
        elif paragraph.startswith("Args:"):
            pieces.append(_arguments(paragraph))
        elif paragraph.startswith("    "):
            pieces.append(f"```text\n{inspect.cleandoc(paragraph)}\n```")
        else:
            pieces.append(paragraph)
    return "\n\n".join(pieces)


def _arguments(paragraph: str) -> str:
    lines = paragraph.splitlines()[1:]
    text = "\n".join(line.removeprefix("    ") for line in lines)
    joined = re.sub(r"\n\s+", " ", text)
    return re.sub(r"^(\w+): ", r"- `\1`: ", joined, flags=re.MULTILINE)


def run_examples() -> int:
    """Run the examples that stand here and not in a docstring; how many failed."""
    failed = 0
    for name, text in EXAMPLES.items():
        names: dict[str, Any] = {}
        exec(PREAMBLE, names)
        test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failed += doctest.DocTestRunner(optionflags=flags).run(test).failed
    return failed
