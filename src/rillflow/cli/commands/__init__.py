"""The list of commands of `rillflow`; each is the file of its name here, with a `main`.

A command is imported when it is asked for. This list is all that a new one needs besides its file.
"""

GROUPS = {
    "train": {
        "train": "train an algorithm on an environment",
        "resume": "go on with a run that was stopped or died",
        "tune": "search for good settings",
    },
    "look at what came of it": {
        "evaluate": "play episodes with a trained policy and report the returns",
        "record": "film a trained policy",
        "record-data": "write episodes of a policy as a dataset to learn from",
        "plot": "draw the learning curves of one or more runs",
        "compare": "say how much better some runs are than others, and how sure that is",
        "pack": "write a run into one file, with a model card",
        "unpack": "read such a file, which may come from anybody",
        "serve": "answer observations with a trained policy, over HTTP",
        "export": "write a trained policy as ONNX",
        "view": "show a run in the browser, or all runs, while they go on or later",
    },
    "understand": {
        "explain": "show an algorithm's dataflow: text, Mermaid, SVG or JSON",
        "simulate": "predict throughput and bottleneck on 1 to 1000 workers",
        "bench": "run the benchmarks",
        "list": "list algorithms, environments, engines and runs",
    },
}
COMMANDS = [name for group in GROUPS.values() for name in group]
"""all of them, in the order of `rillflow --help`"""
