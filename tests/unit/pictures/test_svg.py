"""Pictures: valid, self-contained, every label inside its box, and no edge across a box."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from rillflow.flows.flow import Flow
from rillflow.flows.merge import Concurrently, Union
from rillflow.flows.queues import Dequeue, Enqueue
from rillflow.flows.sources import from_actors, from_range
from rillflow.graph.handles import Actors, Background, Queue
from rillflow.pictures.grid import Edge, place
from rillflow.pictures.layout import Box, Layout, arrange
from rillflow.pictures.svg import caption, picture, text_width, to_svg

SVG = "{http://www.w3.org/2000/svg}"


class Worker:
    def sample(self) -> int:
        return 1


class Holds:
    def __init__(self, label: str, **handles: Any) -> None:
        self.label = label
        self.__dict__.update(handles)

    def __call__(self, item: Any) -> Any:
        return item


def double(item: int) -> int:
    return 2 * item


def a3c() -> Flow[Any]:
    workers = Actors.of(Worker, 8, name="worker")
    grads = from_actors(workers, "sample").for_each(double).gather_async(num_async=2)
    return grads.for_each(Holds("ApplyGradients", workers=workers))


def apex() -> Flow[Any]:
    workers = Actors.of(Worker, 8, name="worker")
    replay = Actors.of(Worker, 4, name="replay")
    learner = Background(double, name="learner")
    store = from_actors(workers, "sample").gather_async().for_each(Holds("Store", replay=replay))
    train = from_actors(replay, "sample").gather_async().for_each(Enqueue(learner.inqueue))
    update = Dequeue(learner.outqueue).for_each(Holds("Update", replay=replay, workers=workers))
    return Concurrently([store, train, update], mode="async", output_indexes=[2])


def split_flow() -> Flow[Any]:
    left, right = from_range(10, 2).gather_sync().split(2, buffer=3)
    store = Holds("Store", store=Actors.of(Worker, 3, name="store"))
    return Union(left.for_each(double, name="twice"), right.for_each(store), weights=[1, 2])


def long_chain() -> Flow[Any]:
    workers = Actors.of(Worker, 2, name="worker")
    flow: Flow[Any] = from_actors(workers, "sample").batch(2).gather_sync()
    for _ in range(20):
        flow = flow.for_each(double)
    return flow.for_each(Holds("Update", workers=workers))


def feedback() -> Flow[Any]:
    """A queue that is filled from what it gives: a cycle."""
    queue: Queue[int] = Queue(name="again", when_full="drop_newest")
    feed = from_range(4, 1).repartition(2).gather_async().for_each(Enqueue(queue))
    again = Dequeue(queue).for_each(double).for_each(Enqueue(queue))
    return Concurrently([feed, again], output_indexes=[1])


def wide_fan() -> Flow[Any]:
    return Union(*from_range(100, 12).shards()).for_each(double)


def in_the_background() -> Flow[Any]:
    name = "a_background_operator_with_an_exceedingly_long_name"
    return from_range(4).gather_sync().for_each(double, on="process", name=name).for_each(double)


FLOWS = [a3c, apex, split_flow, long_chain, feedback, wide_fan, in_the_background]


def apart(one: Box, other: Box) -> bool:
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


def points(path: str) -> Iterator[tuple[float, float]]:
    """Points along an SVG path, close enough together to hit any box it crosses."""
    x = y = 0.0
    for command, numbers in re.findall(r"([MLHCQ])([^MLHCQ]*)", path):
        values = [float(number) for number in numbers.split()]
        if command == "H":
            values.append(y)
        ends = [(x, y), *zip(values[::2], values[1::2], strict=True)]
        if command != "M":
            for step in range(201):
                yield bezier(ends, step / 200)
        x, y = ends[-1]


def bezier(ends: list[tuple[float, float]], t: float) -> tuple[float, float]:
    while len(ends) > 1:
        ends = [(a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t) for a, b in pairwise(ends)]
    return ends[0]


def inside(box: Box, x: float, y: float) -> bool:
    return box.x < x - 0.01 and x + 0.01 < box.x + box.width and (
        box.y < y - 0.01 and y + 0.01 < box.y + box.height
    )  # fmt: skip


def require_clear(layout: Layout) -> None:
    """No two boxes overlap, no edge crosses a box, everything is on the page."""
    for one, other in combinations(layout.boxes.values(), 2):
        assert apart(one, other)
    for route in layout.routes:
        for x, y in points(route.path):
            assert 0 <= x <= layout.width
            assert 0 <= y <= layout.height
            assert not any(inside(box, x, y) for box in layout.boxes.values())
    for box in layout.boxes.values():
        assert box.x >= 0
        assert box.x + box.width <= layout.width
        assert box.y >= 0
        assert box.y + box.height <= layout.height


@pytest.mark.parametrize("flow", FLOWS)
def test_boxes_do_not_overlap_and_edges_go_around_them(flow: Any) -> None:
    _, layout = picture(flow().to_json())
    require_clear(layout)


@pytest.mark.parametrize("flow", FLOWS)
def test_labels_fit_in_their_boxes(flow: Any) -> None:
    document = flow().to_json()
    captions, layout = picture(document)
    for ident, text in captions.items():
        box = layout.boxes[ident]
        assert text.width <= box.width - 8
        assert text.height <= box.height - 8
        for line in text.small:
            assert text_width(line, 11) <= text.width


@pytest.mark.parametrize("flow", FLOWS)
def test_picture_is_valid_and_needs_nothing_else(flow: Any) -> None:
    drawn = to_svg(flow().node)
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    assert "href" not in drawn
    assert "url(" not in drawn
    assert drawn == flow().to_svg()


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_is_drawn_without_overlap(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"box {i}" for i in range(draw.randint(1, 24))]
    sizes = {name: (draw.uniform(40, 200), draw.uniform(20, 90)) for name in names}
    edges: list[Edge] = []
    messages: list[Edge] = []
    for _ in range(len(names) * 2):
        one, other = draw.choice(names), draw.choice(names)
        if one != other:
            (edges if draw.random() < 0.6 else messages).append((one, other))
    layout = arrange(sizes, edges, messages)
    assert len(layout.routes) == len(edges) + len(messages)
    require_clear(layout)


def test_a_chain_is_level() -> None:
    grid = place(["a", "b", "c"], [("a", "b"), ("b", "c")])
    assert [grid.row[key] for key in "abc"] == [0, 0, 0]
    assert [grid.column[key] for key in "abc"] == [0, 1, 2]


def test_crossings_are_undone() -> None:
    grid = place(["a", "b", "c", "d"], [("a", "d"), ("b", "c")])
    assert (grid.row["a"] < grid.row["b"]) == (grid.row["d"] < grid.row["c"])


def test_a_long_edge_keeps_a_row_of_its_own() -> None:
    grid = place(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    passed = grid.paths[2][1]
    assert grid.column[passed] == grid.column["b"]
    assert grid.row[passed] != grid.row["b"]


def test_a_long_chain_is_folded_into_bands() -> None:
    names = [f"{i}" for i in range(20)]
    grid = place(names, list(pairwise(names)))
    assert [max(grid.column[n] for n in names), max(grid.row[n] for n in names)] == [6, 2]


def test_a_flow_of_one_box() -> None:
    layout = arrange({"only": (50, 20)}, [])
    require_clear(layout)
    assert layout.boxes["only"].width == 50


def test_parallel_operators_are_stacked_and_counted() -> None:
    drawn = to_svg(a3c().node)
    texts = [element.text for element in ElementTree.fromstring(drawn).iter(f"{SVG}text")]
    assert "Worker.sample \u00d78" in texts
    assert drawn.count('opacity="0.55"') == 4


def test_messages_are_dotted_and_barriers_barred() -> None:
    assert "stroke-dasharray" in to_svg(a3c().node)
    assert "barrier" not in to_svg(a3c().node)
    assert ">barrier<" in to_svg(split_flow().node)


def test_legend_has_only_what_occurs() -> None:
    words = [e.text for e in ElementTree.fromstring(to_svg(split_flow().node)).iter(f"{SVG}text")]
    assert "message" in words
    assert "through a queue" not in words
    words = [e.text for e in ElementTree.fromstring(to_svg(apex().node)).iter(f"{SVG}text")]
    assert {"through a queue", "for its effects only", "in the background"} <= set(words)


def test_names_are_escaped() -> None:
    flow = from_range(4).gather_async().for_each(double, name='<b> & "c"\x00\x1b')
    texts = [e.text for e in ElementTree.fromstring(to_svg(flow.node)).iter(f"{SVG}text")]
    assert any(text is not None and text.startswith('<b> & "c"') for text in texts)


def test_long_names_are_wrapped_then_cut() -> None:
    box = from_range(4).gather_async().for_each(double, name="x" * 200).to_json()["nodes"][-1]
    assert caption(box).title[0].endswith("…")
    box["name"] = "UpdateTheTargetNetworkOfTheLearnerOnceInAWhile"
    first, second = caption(box).title
    assert first == "UpdateTheTarget"
    assert second.endswith("…")


def test_wide_characters_count_as_wide() -> None:
    assert text_width("\u5b66\u7fd2", 10) > text_width("ab", 10)
