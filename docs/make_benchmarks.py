"""Draw the pictures and write the tables of the benchmarks, from what `make bench` saved.

    python docs/make_benchmarks.py                          from benchmarks/results/
    python docs/make_benchmarks.py --from build/bench --to build/bench     to look at quick runs

Writes docs/pictures/benchmarks/NAME.svg and the table in benchmarks/README.md (and in README.md,
if it has the marks); the page itself, docs/benchmarks.md, is filled in when the site is built.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
for folder in (ROOT, ROOT / "src"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from docs.generate.bench_pictures import Document, draw  # noqa: E402
from docs.generate.benchmarks import PICTURES, RESULTS, documents, overview  # noqa: E402

READMES = {
    ROOT / "benchmarks" / "README.md": "../docs/benchmarks.md",
    ROOT / "README.md": "docs/benchmarks.md",
}
"""with the way from there to the page; one without the marks stays as it is"""
BEGIN, END = "<!-- suite -->", "<!-- end suite -->"


def write_table(found: list[Document], readme: Path, page: str) -> None:
    """The table of the figures that have a bar, between its marks."""
    text = readme.read_text()
    if BEGIN not in text:
        return
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    table = overview(found).replace("](#", f"]({page}#")
    readme.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}")


def main() -> None:
    """Draw, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--to", type=Path, default=PICTURES, metavar="FOLDER")
    options = parser.parse_args()
    found = documents(options.source)
    for document in found:
        path = options.to / f"{document['question']}.svg"
        print(f"{path}{'' if draw(document, path) else ': nothing to draw'}")
    if options.to == PICTURES and found:
        for readme, page in READMES.items():
            write_table(found, readme, page)


if __name__ == "__main__":
    main()
