"""Nothing trained is ever lost: whatever ends a run, and when, it can be played and goes on.

A run is killed, stopped, left without room on its disk, or has an environment that raises, at a
random moment after its first checkpoint. Then `evaluate` plays its newest policy, and `resume`
trains on. The seed of the moments is fixed, and told with a failure.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from faults_disk import Disk, small_disk
from faults_product import ENV, SMALL, Product, goes_on

LONG = "--until=steps=1e8"
MOMENTS = 20
COMMANDS = {
    "ppo": ("train", "ppo", ENV, *SMALL, "--train-batch-size=512"),
    "apex": ("train", "apex", ENV, "--num-workers=2", "--learning-starts=500"),
}
Fault = Callable[[Product, Path], None]


def killed(product: Product, token: Path) -> None:
    product.signal(signal.SIGKILL)
    assert product.end() == -signal.SIGKILL
    assert not product.survivors()


def stopped(product: Product, token: Path) -> None:
    product.signal(signal.SIGTERM)
    assert product.end() == 128 + signal.SIGTERM
    assert not product.survivors()


def raised(product: Product, token: Path) -> None:
    """With `--on-failure raise`; by default only the copy that raises begins anew."""
    token.touch()
    assert product.end() == 1
    assert "the simulator broke" in product.text


FAULTS: dict[str, Fault] = {"killed": killed, "stopped": stopped, "raised": raised}


def one_moment(folder: Path, algorithm: str, fault: str, moment: float) -> None:
    folder.mkdir()
    token = folder / "token"
    config = f'--env-config={{"token": "{token}"}}'
    on_failure = f"--on-failure={'raise' if fault == 'raised' else 'restart'}"
    words = (*COMMANDS[algorithm], config, on_failure, "--checkpoint-seconds=1", LONG)
    with Product(folder, *words) as product:
        product.until(lambda: list((product.run / "checkpoints").glob("0*")), "a checkpoint")
        time.sleep(moment)
        FAULTS[fault](product, token)
    token.unlink(missing_ok=True)
    goes_on(folder, 500)


def one_full_disk(folder: Path, algorithm: str, moment: float) -> None:
    """The disk fills up at the moment, and has room again after the run has been stopped."""
    folder.mkdir()
    with small_disk(folder) as disk:
        if disk is None:
            pytest.skip("only root may make a small file system")
        config = '--env-config={"token": "none"}'
        words = (*COMMANDS[algorithm], config, "--checkpoint-seconds=1", LONG)
        if algorithm == "apex":
            words += ("--buffer-size=2000",)
        with Product(disk.path, *words) as product:
            product.until(lambda: list((product.run / "checkpoints").glob("0*")), "a checkpoint")
            time.sleep(moment)
            _filled(disk, product)
        disk.empty()
        goes_on(disk.path, 500)


def _filled(disk: Disk, product: Product) -> None:
    disk.fill()
    when = time.monotonic()
    product.until_said("note: ", "training goes on", since=when)
    product.signal(signal.SIGTERM)
    code = product.end()
    assert code not in (0, 143), "what could not be saved is an error"


def moments(algorithm: str, fault: str, count: int) -> list[float]:
    draw = random.Random(f"{algorithm} {fault}")
    return [draw.uniform(0.0, 3.0) for _ in range(count)]


def at_moments(folder: Path, algorithm: str, fault: str, count: int) -> None:
    """Two at a time: half of each is the start of one process after the other."""

    def one(number: int, moment: float) -> None:
        where = folder / str(number)
        try:
            if fault == "full":
                one_full_disk(where, algorithm, moment)
            else:
                one_moment(where, algorithm, fault, moment)
        except Exception as error:
            error.add_note(f"{algorithm}, {fault}, moment {number} of {count}: {moment:.3f} s")
            raise

    with ThreadPoolExecutor(2) as two:
        list(two.map(one, range(count), moments(algorithm, fault, count)))


EVERY = [(a, f) for a in ("ppo", "apex") for f in ("killed", "stopped", "raised", "full")]


@pytest.mark.proc
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("algorithm", "fault"), EVERY)
def test_at_twenty_random_moments(tmp_path: Path, algorithm: str, fault: str) -> None:
    at_moments(tmp_path, algorithm, fault, MOMENTS)


@pytest.mark.proc
def test_at_a_random_moment(tmp_path: Path) -> None:
    at_moments(tmp_path, "ppo", "killed", 1)
