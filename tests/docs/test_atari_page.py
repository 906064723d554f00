"""The page of Atari games: what it says of the protocol is so, and figures come from a file."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from docs.generate import atari
from rillflow.envs.atari_options import OPTIONS, SHORT

PAGE = Path(__file__).parents[2] / "docs" / "atari.md"
HERE = {"machine": {"cores": 16, "cpu": "a processor", "gpu": "a GPU"}}
OWN = {"processes": 16, "copies": 32, "threads": 1, "steps_per_s": 20000.0}


def test_every_option_that_the_page_names_is_one() -> None:
    table = PAGE.read_text().partition("| option of `env_config` |")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line)}
    assert named - {"env_config"} <= {*OPTIONS, *SHORT}
    assert {SHORT.get(name, name) for name in named} >= {
        name
        for name in OPTIONS
        if not name.startswith(("continuous", "num_threads", "thread", "autoreset"))
    }


def part(name: str, **told: Any) -> dict[str, Any]:
    return {"part": name, **HERE, **told}


def test_figures_and_curves_come_from_the_file(tmp_path: Path) -> None:
    points = [
        {"steps": 1000.0 * n, "seconds": 6.0 * n, "episodes": n, "return": n - 21.0}
        for n in range(40)
    ]
    points[0].pop("return")
    train = {"algorithm": "ppo", "game": "ALE/Pong-v5", "target": 18.0, "curve": points}
    parts = [
        part("rates-Pong", game="Pong", best=OWN),
        part(
            "throughput-ppo-Pong",
            **{"algorithm": "ppo", "game": "ALE/Pong-v5", "steps_per_s": 12345.0},
            **{"own": OWN, "ratio": 0.617, "mean_gpu": 42.0},
        ),
        part("train-ppo-Pong-0", **train, last=points[-1], reached=points[39]),
        part("train-ppo-Pong-1", **{**train, "curve": []}, last={}, reached=None),
        part("evaluate-x", run="x", actions="sampled", episodes=100, mean=18.25, median=18.0),
        part("peer-Pong", peer="PPO", game="Pong", steps_per_s=None, reached=None)
        | {"return": None},
    ]
    path = tmp_path / "atari_gpu.json"
    path.write_text(json.dumps({"parts": parts}))
    page = atari.page(path)
    for text in ("16 cores (a processor) with a GPU", "12,345", "0.617", "42 %", "after 234 s"):
        assert text in page
    assert "not measured" in page
    assert "18: not reached" in page
    picture = ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    (line,) = picture.findall("polyline")
    assert len(line.attrib["points"].split()) == 39


@pytest.mark.parametrize("text", [None, '{"parts": []}'])
def test_without_figures_the_page_says_so(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "atari_gpu.json"
    if text is not None:
        path.write_text(text)
    assert atari.page(path) == atari.NOTHING
