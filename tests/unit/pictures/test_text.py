"""The schema, the text tree and the Mermaid chart of small flows, compared exactly."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently, Union
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.flows.sources import from_actors, from_range
from rillflow.graph.handles import Actors, Background, Queue
from rillflow.pictures.graph_json import to_json
from rillflow.pictures.mermaid import to_mermaid
from rillflow.pictures.text import to_text


class Worker:
    def sample(self) -> int:
        return 1


class Replay:
    def replay(self) -> int:
        return 1


class Holds:
    """An operator that may send messages to the actors it holds."""

    def __init__(self, label: str, **handles: Any) -> None:
        self.label = label
        self.__dict__.update(handles)

    def __call__(self, item: Any) -> Any:
        return item


def double(item: int) -> int:
    return 2 * item


def a3c(count: int = 8) -> Flow[Any]:
    workers = Actors.of(Worker, count, name="worker")
    grads = from_actors(workers, "sample").for_each(double).gather_async(num_async=2)
    return grads.for_each(Holds("Apply", workers=workers))


def apex() -> Flow[Any]:
    workers = Actors.of(Worker, 8, name="worker")
    replay = Actors.of(Replay, 4, name="replay")
    learner = Background(double, name="learner")
    rollouts = from_actors(workers, "sample").gather_async(num_async=2)
    store = rollouts.for_each(Holds("Store", replay=replay))
    samples = from_actors(replay, "replay").gather_async(num_async=4)
    train = samples.for_each(Enqueue(learner.inqueue))
    update = Dequeue(learner.outqueue).for_each(Holds("Update", to=replay[0], workers=workers))
    return Concurrently([store, train, update], mode="async", output_indexes=[2])


def split_flow() -> Flow[Any]:
    left, right = from_range(10, 2).gather_sync().flatten().split(2, buffer=3)
    return Union(left.for_each(double, name="twice"), right, weights=[1, 2.5])


def queue_flow() -> Flow[Any]:
    queue: Queue[int] = Queue(capacity=4, name="mid", when_full="drop_oldest")
    feed = from_range(10, 2).gather_async().for_each(Enqueue(queue))
    return Concurrently([feed, Dequeue(queue)], output_indexes=[1])


def text(flow: Flow[Any]) -> str:
    return to_text(flow.node)


def edges(flow: Flow[Any], *kinds: str) -> list[tuple[str, str]]:
    found = to_json(flow.node)["edges"]
    return [(e["from"], e["to"]) for e in found if e["kind"] in kinds]


def boxes(flow: Flow[Any]) -> dict[str, dict[str, Any]]:
    return {box["id"]: box for box in to_json(flow.node)["nodes"]}


def tree(expected: str) -> str:
    return dedent(expected).strip("\n")


def test_text_of_an_asynchronous_flow() -> None:
    assert text(a3c()) == tree(
        """
        4 operators, 8 actors in 1 group: 8 \u00d7 worker

        for_each(Apply)                      driver  sends messages to worker
        └─ gather_async(num_async=2)         driver  as ready, at most 2 open requests per shard
           └─ for_each(double)               8 \u00d7 worker
              └─ from_actors(Worker.sample)  8 \u00d7 worker
        """
    )


def test_text_of_the_apex_shape() -> None:
    drawn = text(apex()).splitlines()
    assert drawn[0] == (
        "10 operators, 13 actors in 3 groups: "
        "8 \u00d7 worker, 4 \u00d7 replay, 1 \u00d7 learner (thread)"
    )
    assert [line.split("  driver")[0].rstrip() for line in drawn[2:]] == [
        "union",
        "├─ for_each(Store)",
        "│  └─ gather_async(num_async=2)",
        "│     └─ from_actors(Worker.sample)  8 \u00d7 worker",
        "├─ enqueue(learner.in)",
        "│  └─ gather_async(num_async=4)",
        "│     └─ from_actors(Replay.replay)  4 \u00d7 replay",
        "└─ for_each(Update)",
        "   └─ dequeue(learner.out)",
        "      └─ background(learner)         thread  queue 'learner.out' holds 16, then waits",
        "         └─ enqueue(learner.in)      ↑ shown above",
    ]
    assert drawn[2].endswith("whichever is ready; gives [2], the rest run for their effects")
    assert drawn[6].endswith("driver  queue 'learner.in' holds 16, then waits")
    assert drawn[9].endswith("driver  sends messages to replay, worker")


def test_text_shows_a_split_once_and_refers_to_it_afterwards() -> None:
    assert text(split_flow()) == tree(
        """
        6 operators, 2 actors in 1 group: 2 \u00d7 range

        union(weights=[1, 2.5])        driver  turns 1:2.5
        ├─ twice: for_each(double)     driver
        │  └─ split(2)[0]              driver  each item to 2 branches, at most 3 items apart
        │     └─ flatten               driver
        │        └─ gather_sync        driver  barrier: next round waits for everything downstream
        │           └─ from_range(10)  2 \u00d7 range
        └─ split(2)[1]                 ↑ shown above
        """
    )


def test_text_of_a_plain_queue_leads_from_its_reader_to_its_writer() -> None:
    assert text(queue_flow()) == tree(
        """
        5 operators, 2 actors in 1 group: 2 \u00d7 range

        union(round_robin)       driver  turns 1:1; gives [1], the rest run for their effects
        ├─ enqueue(mid)          driver  queue 'mid' holds 4, then drops the oldest
        │  └─ gather_async       driver  as ready, at most 1 open request per shard
        │     └─ from_range(10)  2 \u00d7 range
        └─ dequeue(mid)          driver
           └─ enqueue(mid)       ↑ shown above
        """
    )


def test_text_of_routed_shards_says_how_items_are_dealt() -> None:
    flow = from_range(10, 2).for_each(double, max_concurrency=2).repartition(3).gather_sync()
    drawn = text(flow)
    assert "2 helpers per shard" in drawn
    assert "item k of a shard to helper k mod n" in drawn
    assert "9 actors in 3 groups" in drawn


def test_text_states_the_unit_of_weights() -> None:
    one, other = from_range(4).gather_async(), from_range(4).gather_async()
    flow = Union(one, other, weights=[1, 2], units=double)
    assert "turns 1:2 in units of double" in text(flow)


def test_text_of_a_long_chain_stops_indenting() -> None:
    flow: Flow[Any] = from_range(4).gather_async()
    for _ in range(2000):
        flow = flow.for_each(double)
    lines = text(flow).splitlines()
    assert len(lines) == 2004
    assert max(len(line) - len(line.lstrip()) for line in lines) < 36


def test_text_keeps_a_label_on_one_short_line() -> None:
    flow = from_range(4).gather_async().for_each(double, name="two\nlines " + "x" * 100)
    line = text(flow).splitlines()[2]
    assert line.startswith("two lines xxx")
    assert "x… " in line


def test_header_lists_at_most_six_groups() -> None:
    flow = Union(*(from_range(4, 1).gather_async() for _ in range(7)))
    head = text(flow).splitlines()[0]
    assert head.endswith("7 actors in 7 groups: " + ", ".join(
        [f"1 \u00d7 {name}" for name in ("range", *(f"range#{i}" for i in range(2, 7)))] + ["..."]
    ))  # fmt: skip


def test_header_of_a_flow_without_actors() -> None:
    assert text(Dequeue(Queue(name="fed by nobody"))).splitlines()[0] == "1 operator"


def test_json_is_plain_data_and_the_same_every_time() -> None:
    first, second = (json.dumps(to_json(apex().node)) for _ in range(2))
    assert first == second
    assert json.loads(first) == to_json(apex().node)


def test_json_has_the_edges_of_the_apex_shape() -> None:
    flow = apex()
    assert edges(flow, "queue") == [
        ("enqueue(learner.in)", "background(learner)"),
        ("background(learner)", "dequeue(learner.out)"),
    ]
    assert edges(flow, "message") == [
        ("for_each(Store)", "from_actors(Replay.replay)"),
        ("for_each(Update)", "from_actors(Replay.replay)"),
        ("for_each(Update)", "from_actors(Worker.sample)"),
    ]
    assert edges(flow, "data") == [
        ("from_actors(Worker.sample)", "gather_async(num_async=2)"),
        ("gather_async(num_async=2)", "for_each(Store)"),
        ("from_actors(Replay.replay)", "gather_async(num_async=4)"),
        ("gather_async(num_async=4)", "enqueue(learner.in)"),
        ("dequeue(learner.out)", "for_each(Update)"),
        ("for_each(Store)", "union"),
        ("enqueue(learner.in)", "union"),
        ("for_each(Update)", "union"),
    ]


def test_json_marks_asynchronous_edges_and_those_without_output() -> None:
    by_end = {(e["from"], e["to"]): e for e in to_json(apex().node)["edges"]}
    assert by_end["from_actors(Worker.sample)", "gather_async(num_async=2)"]["async"] is True
    assert by_end["gather_async(num_async=2)", "for_each(Store)"]["async"] is False
    assert by_end["enqueue(learner.in)", "background(learner)"]["queue"] == "learner.in"
    assert by_end["for_each(Store)", "union"]["output"] is False
    assert "output" not in by_end["for_each(Update)", "union"]


def test_json_describes_the_boxes() -> None:
    found = boxes(apex())
    source = found["from_actors(Worker.sample)"]
    assert (source["where"], source["parallel"], source["shards"]) == ("actors", True, 8)
    assert (source["group"], source["method"]) == ("worker", "sample")
    learner = found["background(learner)"]
    assert (learner["kind"], learner["where"], learner["reads"]) == (
        "background", "thread", "learner.in",
    )  # fmt: skip
    assert found["gather_async(num_async=4)"]["num_async"] == 4
    assert found["union"]["outputs"] == [2]
    assert boxes(split_flow())["gather_sync"]["barrier"] is True
    assert boxes(split_flow())["split(2)"]["buffer"] == 3


def test_json_lists_groups_queues_and_backgrounds() -> None:
    document = to_json(apex().node)
    assert [(g["name"], g["count"], g["placement"], g["class"]) for g in document["groups"]] == [
        ("worker", 8, "process", "Worker"),
        ("replay", 4, "process", "Replay"),
        ("learner", 1, "thread", "CallableActor"),
    ]
    assert [(q["name"], q["capacity"], q["backgrounds"]) for q in document["queues"]] == [
        ("learner.in", 16, ["background(learner)"]),
        ("learner.out", 16, ["background(learner)"]),
    ]
    assert document["backgrounds"] == [
        {
            "id": "background(learner)", "name": "learner", "fn": "double", "placement": "thread",
            "inqueue": "learner.in", "outqueue": "learner.out",
        }
    ]  # fmt: skip


def test_json_says_how_a_group_meets_failures_and_what_it_needs() -> None:
    workers = Actors.of(Worker, 1, on_failure="restart", resources={"num_gpus": 0.5})
    group = to_json(from_actors(workers, "sample").gather_sync().node)["groups"][0]
    assert group["on_failure"] == {"on_error": "restart", "on_lost": "restart"}
    assert group["resources"] == {"num_gpus": 0.5}


def test_json_has_a_box_for_a_queue_without_a_background() -> None:
    assert edges(queue_flow(), "queue") == [
        ("enqueue(mid)", "queue(mid)"),
        ("queue(mid)", "dequeue(mid)"),
    ]


def test_json_chains_backgrounds_that_share_a_queue() -> None:
    first = Background(double, name="first")
    second = Background(double, name="second", inqueue=first.outqueue)
    feed = from_range(4).gather_async().for_each(Enqueue(first.inqueue))
    flow = Concurrently([feed, Dequeue(second.outqueue)], output_indexes=[1])
    assert set(edges(flow, "queue")) == {
        ("enqueue(first.in)", "background(first)"),
        ("background(first)", "background(second)"),
        ("background(second)", "dequeue(second.out)"),
    }


def test_json_has_a_box_for_actors_that_only_get_messages() -> None:
    store = Actors.of(Replay, 3, name="store")
    flow = from_range(4).gather_async().for_each(Holds("Store", store=store))
    assert edges(flow, "message") == [("for_each(Store)", "actors(store)")]
    assert boxes(flow)["actors(store)"]["shards"] == 3


def test_json_has_no_messages_from_operators_inside_actors() -> None:
    """Only the driver can send."""
    workers = Actors.of(Worker, 2)
    flow = from_actors(workers, "sample").for_each(Holds("Inside", workers=workers)).gather_sync()
    assert edges(flow, "message") == []


def test_json_leads_a_split_to_its_readers_by_port() -> None:
    found = to_json(split_flow().node)["edges"]
    assert [(e["to"], e["port"]) for e in found if e["from"] == "split(2)"] == [
        ("twice", 0),
        ("union(weights=[1, 2.5])", 1),
    ]


def test_json_of_a_split_that_is_itself_the_output() -> None:
    left, _ = from_range(4).gather_async().split()
    assert to_json(left.node)["output"] == "split(2)"


def test_json_counts_the_shards_that_are_left() -> None:
    one = from_actors(Actors.of(Worker, 3, name="one"), "sample")
    two = from_actors(Actors.of(Replay, 2, name="two"), "replay")
    joined = one.union(two)
    assert boxes(joined.gather_sync())["union"]["groups"] == ["one", "two"]
    kept = boxes(joined.select_shards([3, 4]).gather_sync())["select_shards([3, 4])"]
    assert (kept["shards"], kept["groups"]) == (2, ["two"])


def test_ids_stay_unique_when_names_repeat() -> None:
    flow = from_range(4).gather_async().for_each(double, name="same").for_each(double, name="same")
    ids = [box["id"] for box in to_json(flow.node)["nodes"]]
    assert ids[-2:] == ["same", "same#2"]


def test_queues_of_the_same_name_are_told_apart() -> None:
    first: Queue[int] = Queue()
    second: Queue[int] = Queue()
    feed = from_range(4).gather_async().for_each(Enqueue(first))
    passed = Dequeue(first).for_each(Enqueue(second))
    flow = Concurrently([feed, passed, Dequeue(second)], output_indexes=[2])
    assert [queue["name"] for queue in to_json(flow.node)["queues"]] == ["queue", "queue#2"]
    assert ("queue(queue#2)", "dequeue(queue)#2") in edges(flow, "queue")


def test_mermaid_of_an_asynchronous_flow() -> None:
    lines = to_mermaid(a3c().node).splitlines()
    most = "as ready, at most 2 open requests per shard"
    assert lines[:12] == [
        "flowchart LR",
        '  subgraph g0["8 \u00d7 worker"]',
        '    n0(["from_actors(Worker.sample)"]):::actors',
        '    n1(["for_each(double)"]):::actors',
        "  end",
        '  subgraph g1["driver"]',
        f'    n2["gather_async(num_async=2)<br/>{most}"]:::driver',
        '    n3["for_each(Apply)"]:::driver',
        "  end",
        "  n0 --> n1",
        '  n1 -- "as ready" --> n2',
        "  n2 --> n3",
    ]
    assert '  n3 -. "message" .-> n0' in lines
    assert "  linkStyle 3 stroke:#db2777" in lines


def test_mermaid_labels_queues() -> None:
    chart = to_mermaid(apex().node)
    assert '-- "queue learner.in" -->' in chart
    assert '[["background(learner)<br/>' in chart
    assert '[("queue(mid)<br/>' in to_mermaid(queue_flow().node)


def test_mermaid_escapes_what_it_could_take_for_syntax() -> None:
    flow = from_range(4).gather_async().for_each(double, name='a "b" <c> #1; `d`|e\n')
    assert "a #34;b#34; #60;c#62; #35;1#59; #96;d#96;#124;e#10;: " in to_mermaid(flow.node)
