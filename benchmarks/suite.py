"""Ask all questions, one after the other: `make bench`.

    python benchmarks/suite.py [--only NAME,NAME] [--quick] [--repeats N] [--peers A,B] [--list]

Each question runs in a process of its own and is saved as soon as it is answered, so that one that
failed can be asked again with --only. Results go to results/NAME.json; those of --quick, which mean
little, to build/bench/NAME.json. What follows `--` goes to the questions.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _common import RESULTS, end_cleanly

HERE = Path(__file__).parent
QUICK_RESULTS = HERE.parent / "build" / "bench"


def questions(folder: Path = HERE) -> dict[str, float]:
    """Minutes that each question takes at most: the scripts that say so with `MINUTES = n`."""
    found = {}
    for path in sorted(folder.glob("[a-z]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "MINUTES":
                found[path.stem] = float(ast.literal_eval(node.value))
    return found


def chosen(only: str | None, known: dict[str, float]) -> list[str]:
    """The names to ask; those of `only` in its order."""
    if only is None:
        return list(known)
    names = [name for name in only.replace(" ", ",").split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def ask(name: str, folder: Path, arguments: list[str], minutes: float) -> dict[str, Any] | None:
    """One question in a process of its own; None: it failed, or took four times its minutes."""
    saved = folder / f"{name}.json"
    new = folder / f".{name}.new.json"
    new.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / f"{name}.py"), "--save", str(new), *arguments]
    question = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        question.wait(minutes * 240)
    except subprocess.TimeoutExpired:
        print(f"{name}: no answer within {minutes * 4:g} minutes", file=sys.stderr)
        return None
    finally:
        question.terminate()  # it ends its drivers before itself
        code = question.wait()
    if code or not new.exists():
        print(f"{name}: failed with exit code {code}", file=sys.stderr)
        return None
    new.replace(saved)  # the last good answer stays until there is a new one
    answer: dict[str, Any] = json.loads(saved.read_text())
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="NAMES", help="some questions, separated by commas")
    parser.add_argument("--list", action="store_true", help="name the questions and their minutes")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that they work")
    parser.add_argument("--repeats", metavar="N", help="of each measurement")
    parser.add_argument("--peers", metavar="A,B", help="which peers to measure")
    given, rest = parser.parse_known_args()
    known = questions()
    names = chosen(given.only, known)
    if given.list:
        print("\n".join(f"{name:<16}{known[name]:>4g} minutes" for name in names))
        return 0
    total = sum(known[name] for name in names)
    about = "less, since it is quick" if given.quick else f"about {total:g} minutes"
    print(f"{len(names)} questions, {about}: {', '.join(names)}", file=sys.stderr, flush=True)
    arguments = [*(["--quick"] if given.quick else []), *(arg for arg in rest if arg != "--")]
    for flag, value in (("--repeats", given.repeats), ("--peers", given.peers)):
        arguments += [] if value is None else [flag, value]
    folder = QUICK_RESULTS if given.quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    end_cleanly()
    failed = []
    for name in names:
        print(f"\n{name} (at most {known[name]:g} minutes)", file=sys.stderr, flush=True)
        began = time.time()
        answer = ask(name, folder, arguments, known[name])
        if answer is None:
            failed.append(name)
        print(f"{name}: {time.time() - began:.0f} s", file=sys.stderr, flush=True)
    shown = folder.relative_to(HERE.parent)
    print(f"\nsaved in {shown}; `make bench-page` draws the page", file=sys.stderr)
    if failed:
        print(f"to ask again: --only {','.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
