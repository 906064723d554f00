"""The documentation builds without a network, and what it takes from the code is there."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rillflow as rf
from docs.generate import algorithms, decisions, hooks, operators, sources
from rillflow.algorithms import NAMES, get_algorithm
from tests.web.browser import CHROMIUM, Tab, chromium

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_examples_of_operators_run() -> None:
    """Those that stand in the reference and not in a docstring."""
    assert operators.run_examples() == 0


def test_every_operator_of_the_paper_is_in_the_reference() -> None:
    from rillflow import paper

    known = {id(operators.found(path)) for _, paths in operators.GROUPS.values() for path in paths}
    missing = [
        name
        for name, thing in vars(paper).items()
        if getattr(thing, "__module__", "").startswith(
            ("rillflow.rl.", "rillflow.flows.", "rillflow.graph.")
        )
        and name[0].isupper()
        and id(thing) not in known
        and not name.endswith(("Config", "Actors", "ReplayActor"))  # an actor, not an operator
    ]
    assert not missing


def test_every_operator_has_an_example() -> None:
    """In its docstring or beside it; of two that belong together one is enough."""
    for _, paths in operators.GROUPS.values():
        for path in paths:
            text = operators.entry(path, {})
            assert ">>>" in text or "see `InnerAdapt`" in text, path


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_has_a_page_with_every_setting_explained(name: str) -> None:
    assert f"[[algorithm {name}]]" in (DOCS / "algorithms" / f"{name}.md").read_text()
    config = get_algorithm(name).Config
    documents = algorithms.field_documents(config)
    fields = {field.name for field in dataclasses.fields(config)}
    assert fields <= documents.keys(), fields - documents.keys()
    text = algorithms.page(name)
    assert "def plan(" in text
    assert all(f"`{field}`" in text for field in fields)


def test_what_an_algorithm_begins_with_elsewhere_is_on_its_page() -> None:
    text = algorithms.page("dqn")
    assert "- `MountainCar-v0`: `hidden=(128, 128)`" in text
    assert "`num_learner_threads` as many as there are cores" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_has_a_measured_curve(name: str) -> None:
    about = json.loads((DOCS / "pictures" / "curves" / f"{name}.json").read_text())
    assert about["runs"]
    assert "host" not in about["machine"]
    assert (DOCS / "pictures" / "curves" / f"{name}.svg").read_text().startswith("<?xml")


def test_every_decision_has_its_number_its_title_and_a_sentence() -> None:
    """In the index, which is made from the heading and the first paragraph of each file."""
    files = sorted(decisions.FOLDER.glob("*.md"))
    rows = decisions.index().splitlines()[2:]
    for number, (path, row) in enumerate(zip(files, rows, strict=True), 1):
        assert path.name.startswith(f"{number:04}-")
        assert re.fullmatch(
            rf"\| {number} \| \[[^]]+\]\(decisions/{path.name}\) \| [\w`].+\. \|", row
        )


def test_parts_of_a_file_are_cut_out_by_name() -> None:
    text = sources.parts("examples/own_algorithm.py", "update", "plan")
    assert text.count("def ") == 2
    compile(text.split("\n", 1)[1].rpartition("```")[0], "parts", "exec")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built strictly: a dead link or a page that is nowhere in the menu is an error."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    built = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
        capture_output=True,
        timeout=100,
    )
    return built


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', text)
        assert not loaded, f"{page.name} loads {loaded}"
        assert not re.search(r"<p>\[\[[a-z]", text), f"{page.name} has a directive left"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("dark", [False, True])
def test_pages_fit_a_phone_and_are_dark_where_the_system_is(site: Path, dark: bool) -> None:
    with chromium() as browser:
        tab = Tab(browser, width=390, height=844, dark=dark)
        for page in ("index", "quickstart", "benchmarks", "coming-from", "algorithms/ppo"):
            tab.open((site / f"{page}.html").as_uri())
            scheme = "document.body.dataset.mdColorScheme"
            tab.until(f"{scheme} === '{'slate' if dark else 'default'}'")
            assert tab.js("document.documentElement.scrollWidth") == 390, page
        drawn = tab.js("getComputedStyle(document.querySelector('img.flow')).filter")
        assert ("invert" in drawn) == dark, "drawings are turned over at night"


def test_directives_are_all_known() -> None:
    for page in DOCS.rglob("*.md"):
        for name, _ in hooks._DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            assert name in hooks.MAKERS, f"{page}: [[{name}]]"


def test_every_public_name_is_in_the_reference_of_the_python_interface() -> None:
    """Once, in a group, with a sentence of its own."""
    from docs.generate import python
    from tests.test_public_api import PUBLIC

    listed = [name for _, names in python.GROUPS.values() for name in names]
    assert sorted(listed) == sorted(PUBLIC)
    text = python.reference()
    assert "rf.train(\n    algorithm: Any,\n" in text
    assert "| `until` | when to stop: " in text
    assert "0x" not in text
    for name in listed:
        assert inspect.getdoc(getattr(rf, name)), name
