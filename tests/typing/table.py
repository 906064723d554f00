"""Neighbours that do not fit together, with what is said of them; and neighbours that do."""

from __future__ import annotations

from typing import NamedTuple


class Refused(NamedTuple):
    """A flow that is refused when it is written or checked."""

    code: str
    says: str
    """a part of the message; what the consumer takes, and the way out"""
    static: bool = True
    """whether mypy refuses it too; not where a type is known only when the program is, where mypy
    looks into neither NumPy nor torch (which takes it long), nor at what a partial takes"""


REFUSED = {
    # what was reported
    "rounds where a batch is needed": Refused(
        "rollouts.gather_sync().combine(ConcatBatches(100))",
        "'gather_sync' gives list[SampleBatch], but 'combine(ConcatBatches)' takes SampleBatch. "
        "Put .flatten() between them to pass the elements on one by one. "
        'ParallelRollouts(workers, mode="bulk_sync") gives one batch',
    ),
    "batches where gradients are needed": Refused(
        "rollouts.gather_async().for_each(ApplyGradients(workers))",
        "'gather_async' gives SampleBatch, but 'for_each(ApplyGradients)' takes Gradients. "
        "Gradients are computed in the workers: "
        "ParallelRollouts(workers).par_for_each(ComputeGradients())",
    ),
    "a function of text on numbers": Refused(
        "ints.for_each(length)",
        "'from_range(8)' gives int, but 'for_each(length)' takes str",
    ),
    # transforms
    "for_each behind for_each": Refused(
        "int_flow.for_each(word).for_each(double)", "gives str, but 'for_each(double)' takes int"
    ),
    "par_for_each": Refused(
        "ints.par_for_each(half).par_for_each(double)", "gives float, but 'for_each(double)'"
    ),
    "for_each in the background": Refused(
        'int_flow.for_each(length, on="thread")', "gives int, but 'length' takes str"
    ),
    "for_each behind one in the background": Refused(
        'int_flow.for_each(word, on="thread").for_each(double)',
        "gives str, but 'for_each(double)' takes int",
    ),
    "for_each on several helpers": Refused("ints.for_each(length, max_concurrency=2)", "takes str"),
    "behind several helpers": Refused(
        "ints.for_each(word, max_concurrency=2).for_each(half)", "gives str, but 'for_each(half)'"
    ),
    "filter": Refused("ints.filter(long)", "gives int, but 'filter(long)' takes str"),
    "behind filter": Refused("ints.filter(even).for_each(length)", "takes str"),
    "a filter that never says yes": Refused(
        "ints.filter(forgets)", "the function of 'filter(forgets)' gives None. Return a bool"
    ),
    "a filter that gives text": Refused("ints.filter(word)", "gives str. Return a bool"),
    "behind batch": Refused(
        "int_flow.batch(2).for_each(double)",
        "'batch(2)' gives list[int], but 'for_each(double)' takes int. Put .flatten()",
    ),
    "lists of another type": Refused(
        "str_flow.batch(2).for_each(total)",
        "gives list[str], but 'for_each(total)' takes list[int]",
    ),
    "an item where a list is needed": Refused(
        "int_flow.for_each(total)",
        "gives int, but 'for_each(total)' takes list[int]. Put .batch(n) between them",
    ),
    "flatten of numbers": Refused(
        "int_flow.flatten()", "'gather_async' gives int, but 'flatten' takes lists apart"
    ),
    "flatten of text": Refused("str_flow.flatten()", "gives str, but 'flatten' takes lists apart"),
    "flatten of batches": Refused(
        "batches.flatten()", "gives SampleBatch, but 'flatten' takes lists apart"
    ),
    "behind flatten": Refused(
        "ints.for_each(twice).flatten().for_each(length)", "'flatten' gives int"
    ),
    "combine takes another type": Refused("int_flow.combine(letters)", "takes str"),
    "combine without a list": Refused(
        "int_flow.combine(double)", "that of 'combine(double)' gives int. Return a list"
    ),
    "behind combine": Refused(
        "str_flow.combine(letters).for_each(half)", "'combine(letters)' gives str"
    ),
    "a pair where an item is needed": Refused(
        "ints.zip_with_source_actor().for_each(double)",
        "gives tuple[ActorHandle, int], but 'for_each(double)' takes int. "
        "Leave .zip_with_source_actor() out",
    ),
    "an item where a pair is needed": Refused(
        "ints.for_each(actor_of)", "Put .zip_with_source_actor() between them"
    ),
    "behind limit": Refused(
        "strs.limit(3).gather_async().for_each(half)", "'gather_async' gives str"
    ),
    "behind shuffle": Refused("str_flow.shuffle(2).for_each(half)", "'shuffle(2)' gives str"),
    "behind repeat": Refused("str_flow.repeat(2).for_each(half)", "'repeat(2)' gives str"),
    "behind fresh": Refused(
        "str_flow.fresh(max_lag=1).for_each(half)", "gives str, but 'for_each(half)'"
    ),
    "the size of an item": Refused(
        "int_flow.fresh(max_lag=1, size=length)", "but 'size=length of fresh' takes str"
    ),
    # gathering and splitting
    "a round where an item is needed": Refused(
        "ints.gather_sync().for_each(double)", "gives list[int], but 'for_each(double)' takes int"
    ),
    "batch_across_shards": Refused("ints.batch_across_shards().for_each(half)", "gives list[int]"),
    "an item where a round is needed": Refused(
        "ints.gather_async().for_each(total)", "or gather with .gather_sync(), to pass on lists"
    ),
    "a child of a split": Refused("str_flow.split()[1].for_each(half)", "'split(2)[1]' gives str"),
    "a child of a parallel split": Refused(
        "ints.split()[0].for_each(double)", "gives list[int]", static=False
    ),
    "one shard": Refused("strs.get_shard(0).for_each(half)", "gives str"),
    "selected shards": Refused("strs.select_shards([0]).for_each(half)", "gives str"),
    "new shards": Refused("strs.repartition(3).for_each(half)", "'repartition(3)' gives str"),
    "a union of shards": Refused(
        "ints.union(strs).for_each(double)", "'union' gives int | str, but 'for_each(double)' takes"
    ),
    "a union of different types": Refused(
        "rf.Union(int_flow, str_flow).for_each(double)", "gives int | str"
    ),
    "a union, as a method": Refused("int_flow.union(str_flow).for_each(length)", "gives int | str"),
    "one of three in a union": Refused(
        "rf.Union(int_flow, int_flow, str_flow).for_each(double)", "gives int | str"
    ),
    "the output of Concurrently": Refused(
        "rf.Concurrently([int_flow, str_flow], output_indexes=[1]).for_each(double)",
        "gives str, but 'for_each(double)' takes int",
        static=False,
    ),
    "units of a union": Refused(
        "rf.Union(int_flow, int_flow, weights=[1, 2], units=length)", "takes str", static=False
    ),
    # queues
    "onto a queue of another type": Refused(
        "queued(str_flow.for_each(rf.Enqueue(int_queue)), rf.Dequeue(int_queue).for_each(double))",
        "'dequeue(numbers)' gives str, but 'for_each(double)' takes int",
    ),
    "from a queue": Refused(
        "queued(int_flow.for_each(rf.Enqueue(any_queue)), rf.Dequeue(any_queue).for_each(length))",
        "'dequeue(things)' gives int, but 'for_each(length)' takes str",
        static=False,
    ),
    "far behind a queue": Refused(
        "queued(int_flow.for_each(rf.Enqueue(any_queue)),"
        " rf.Dequeue(any_queue).batch(2).filter(anything).for_each(length))",
        "gives list[Any], but 'for_each(length)' takes str",
    ),
    "onto the queue of a background operator": Refused(
        "str_flow.for_each(rf.Enqueue(rf.Background(double).inqueue))", "but 'double' takes int"
    ),
    "from the queue of a background operator": Refused(
        "rf.Dequeue(rf.Background(word).outqueue).for_each(double)",
        "'dequeue(word.out)' gives str, but 'for_each(double)' takes int",
    ),
    "through a background operator that keeps the type": Refused(
        "(keep := rf.Background(same, inqueue=any_queue)) and queued("
        "str_flow.for_each(rf.Enqueue(any_queue)), rf.Dequeue(keep.outqueue).for_each(double))",
        "'dequeue(same.out)' gives str, but 'for_each(double)' takes int",
        static=False,
    ),
    # sources
    "items": Refused("rf.from_items([1.5, 2.5]).for_each(double)", "gives float"),
    "one item of another type": Refused(
        'rf.from_items([1, "two", 3]).for_each(double)', "gives int | str", static=False
    ),
    "items that are lists": Refused(
        "rf.from_items([[1, 2], [3]]).for_each(spell)", "gives list[int]"
    ),
    "iterators": Refused("rf.from_iterators([range(3), range(4)]).for_each(length)", "gives int"),
    "a function that returns an iterator": Refused(
        "rf.from_iterators([countdown]).for_each(length)", "gives int"
    ),
    "a class that is iterated": Refused(
        "rf.from_iterators([Names()]).for_each(double)", "gives str"
    ),
    "actors": Refused(
        "rf.from_actors(rf.Actors.of(Worker, 2)).for_each(length)",
        "'from_actors(Worker.next)' gives int, but 'for_each(length)' takes str",
        static=False,
    ),
    "another method of actors": Refused(
        'rf.from_actors(rf.Actors.of(Worker, 2), "text").for_each(double)',
        "gives str",
        static=False,
    ),
    "a method of actors itself": Refused(
        "rf.from_actors(rf.Actors.of(Worker, 2), Worker.text).for_each(double)", "gives str"
    ),
    "a method that needs more": Refused(
        "rf.from_actors(rf.Actors.of(Worker, 2), 'needy')",
        "Worker.needy has the parameters (self, x: ",
        static=False,
    ),
    "actors of a generic class": Refused(
        "rf.from_actors(rf.Actors.of(Texts, 2)).for_each(double)", "gives str", static=False
    ),
    # callables of every kind
    "a lambda without parameters": Refused("ints.for_each(lambda: 1)", "called with one item"),
    "a function of two": Refused("ints.for_each(power)", "called with one item", static=True),
    "a function of none": Refused("ints.for_each(nothing)", "called with one item"),
    "a partial": Refused(
        "strs.for_each(functools.partial(power, exponent=2))", "takes int", static=False
    ),
    "a partial with the first argument": Refused(
        "strs.for_each(functools.partial(power, 2))", "takes int", static=False
    ),
    "a bound method": Refused("ints.for_each(Scale(2).apply)", "takes str"),
    "a callable object": Refused("strs.for_each(Scale(2))", "'for_each(Scale)' takes float"),
    "an operator": Refused("int_flow.for_each(Count())", "'for_each(Count)' takes str"),
    "behind an operator": Refused("str_flow.for_each(Count()).for_each(length)", "gives int"),
    "with a context": Refused("int_flow.for_each(with_context)", "takes str"),
    "a class": Refused("ints.for_each(Order)", "'for_each(Order)' takes str"),
    "behind a class": Refused("strs.for_each(Order).for_each(length)", "gives Order"),
    "behind a built-in class": Refused("ints.for_each(str).for_each(double)", "gives str"),
    "len": Refused("ints.for_each(len)", "takes Sized"),
    "behind len": Refused("strs.for_each(len).for_each(length)", "'for_each(len)' gives int"),
    "a method of a built-in class": Refused("ints.for_each(str.upper)", "takes str"),
    "a method of a class": Refused("ints.for_each(Dog.bark)", "takes Dog"),
    "a cached function": Refused("ints.for_each(cached)", "takes str", static=False),
    "through a generic function": Refused(
        "strs.for_each(same).for_each(listed).for_each(total)", "gives list[str]"
    ),
    "out of a generic function": Refused(
        "strs.batch(2).for_each(first).for_each(double)", "'for_each(first)' gives str"
    ),
    "beyond a bound": Refused(
        "ints.for_each(shortest)", "'for_each(shortest)' takes Sequence[int]"
    ),
    "none of the constraints": Refused(
        "rf.from_items([1.5]).for_each(plus)", "'for_each(plus)' takes int | str"
    ),
    # types of every kind
    "nothing returned": Refused(
        "ints.for_each(forgets).for_each(double)",
        "gives None, but 'for_each(double)' takes int. It returns nothing: let it return the item",
    ),
    "an optional": Refused(
        "ints.for_each(maybe).for_each(double)",
        "gives int | None, but 'for_each(double)' takes int. Filter None out between them",
    ),
    "a float where an int is needed": Refused(
        "ints.for_each(half).for_each(double)", "gives float"
    ),
    "a base class": Refused("ints.for_each(an_animal).for_each(walk)", "gives Animal"),
    "a sibling": Refused("ints.for_each(a_cat).for_each(walk)", "gives Cat"),
    "a sequence of others": Refused("strs.for_each(letters).for_each(totals)", "takes Sequence"),
    "a mapping of others": Refused(
        "ints.for_each(table).for_each(names)", "takes Mapping[str, str]"
    ),
    "a longer tuple": Refused("ints.for_each(triple).for_each(left)", "gives tuple[int, int, int]"),
    "a named tuple": Refused("ints.for_each(a_point).for_each(far_names)", "gives Point"),
    "a typed dict": Refused("ints.for_each(a_movie).for_each(pages)", "takes Paged"),
    "a new type": Refused("ints.for_each(in_feet).for_each(climb)", "gives Feet"),
    "what a new type is made from": Refused("ints.for_each(half).for_each(climb)", "takes Metres"),
    "literals": Refused("ints.for_each(colour).for_each(shape)", "gives Literal['red', 'blue']"),
    "a box of another": Refused("ints.for_each(boxed).for_each(unbox)", "takes Box[str]"),
    "a derived box": Refused("ints.for_each(int_boxed).for_each(unbox)", "gives IntBox"),
    "out of a box": Refused(
        "ints.for_each(boxed).for_each(unbox_any).for_each(length)", "gives int"
    ),
    "a protocol": Refused("ints.for_each(close)", "takes Closes"),
    "a function of others": Refused("ints.for_each(callback).for_each(calls)", "gives Callable"),
    "an array of others": Refused(
        "ints.for_each(array).for_each(indexes)", "gives ndarray", static=False
    ),
    "an array where a tensor is needed": Refused(
        "ints.for_each(array).for_each(detached)", "takes Tensor", static=False
    ),
    "a tensor where a number is needed": Refused(
        "ints.for_each(tensor).for_each(shout)", "Tensor", static=False
    ),
    "a number where an array is needed": Refused(
        "ints.for_each(norm)", "takes ndarray", static=False
    ),
    # reinforcement learning
    "gradients where batches are needed": Refused(
        "grads.for_each(TrainOneStep(workers))", "takes SampleBatch | Learned"
    ),
    "rounds trained as one batch": Refused(
        "rollouts.gather_sync().for_each(TrainOneStep(workers))", "Put .flatten() between them"
    ),
    "gradients of gradients": Refused(
        "rollouts.par_for_each(ComputeGradients()).par_for_each(ComputeGradients())",
        "gives Gradients, but",
    ),
    "one gradient averaged": Refused(
        "grads.for_each(AverageGradients())", "Put .batch(n) between them"
    ),
    "gradients stored": Refused("grads.for_each(StoreToReplayBuffer(replay))", "gives Gradients"),
    "rounds stored": Refused(
        "rollouts.gather_sync().for_each(StoreToReplayBuffer(replay))", "Put .flatten()"
    ),
    "results standardised": Refused(
        'batches.for_each(TrainOneStep(workers)).for_each(StandardizeFields(["x"]))',
        "gives RowStats",
    ),
    "results trained": Refused(
        "batches.for_each(TrainOneStep(workers)).for_each(TrainOneStep(workers))", "gives RowStats"
    ),
    "priorities of gradients": Refused(
        "grads.for_each(UpdateReplayPriorities(workers))", "gives Gradients"
    ),
    "priorities without figures of rows": Refused(
        "grads.for_each(ApplyGradients(workers)).for_each(UpdateReplayPriorities())",
        "gives TrainStats",
    ),
    "the target network of batches": Refused(
        "batches.for_each(UpdateTargetNetwork(workers, 100))", "takes TrainStats"
    ),
    "gradients for a learner": Refused(
        "grads.for_each(rf.Enqueue(learner.inqueue))", "'learner' takes SampleBatch"
    ),
    "what a learner gives": Refused(
        "rf.Dequeue(learner.outqueue).for_each(ApplyGradients(workers))", "gives Learned"
    ),
    "replay applied": Refused("Replay(replay).for_each(ApplyGradients(workers))", "SampleBatch"),
    "rounds of replay trained": Refused(
        "ParallelReplay(replay).gather_sync().for_each(TrainOneStep(workers))",
        "gives list[SampleBatch]",
    ),
    "one policy of a single one": Refused(
        'Select(batches, policy="left")', "Workers that act with several policies"
    ),
    "experience of all policies trained": Refused(
        "ParallelRollouts(two_policies, mode='async').for_each(TrainOneStep(workers))",
        "gives MultiAgentBatch",
    ),
    "adaptation without rounds": Refused(
        "ParallelRollouts(meta_workers).gather_async().combine(InnerAdapt(meta_workers))",
        "ParallelRollouts(workers).gather_sync()",
    ),
    "a meta-update of rounds": Refused(
        "ParallelRollouts(meta_workers).gather_sync().for_each(MetaUpdate(meta_workers))",
        ".combine(InnerAdapt(workers))",
    ),
    "a function of users on batches": Refused(
        "rollouts.par_for_each(double)", "'rollouts' gives SampleBatch, but 'for_each(double)'"
    ),
    "a plan that is given gradients": Refused("ppo.plan(grads, workers)", "takes SampleBatch"),
}

ACCEPTED = {
    # types that go on
    "int to float": "ints.for_each(shout)",
    "a chain": "ints.for_each(half).gather_async().for_each(shout).filter(long)",
    "lists": "ints.batch(2).for_each(total)",
    "rounds": "ints.gather_sync().for_each(total)",
    "lists of int where float is wanted": "ints.gather_sync().for_each(totals)",
    "flatten": "ints.batch(2).flatten().for_each(double)",
    "flatten of tuples": "ints.for_each(triple).flatten().for_each(double)",
    "combine": "str_flow.combine(letters).for_each(length)",
    "pairs": "ints.zip_with_source_actor().for_each(actor_of)",
    "split": "rf.Union(*(one.for_each(double) for one in int_flow.split()))",
    "limit, shuffle, filter": "int_flow.limit(9).shuffle(2).filter(even).for_each(double)",
    "a union for a consumer of both": "rf.Union(int_flow, str_flow).for_each(int_or_str)",
    "shards of both": "ints.union(strs).for_each(int_or_str)",
    "a union of equals": "rf.Union(int_flow, ints.for_each(double).gather_async()).for_each(half)",
    "an optional that is guarded": "ints.for_each(maybe).filter(is_there).for_each(double)",
    "to a wider type": "ints.for_each(a_dog).for_each(feed)",
    "to a union": "ints.for_each(int_or_str)",
    "of a union with None": "ints.for_each(maybe).for_each(is_there)",
    "in the background": 'int_flow.for_each(word, on="thread").for_each(length)',
    "on helpers": "ints.for_each(word, max_concurrency=2).for_each(length)",
    "new shards": "ints.repartition(3).for_each(double)",
    "a queue": "queued(int_flow.for_each(rf.Enqueue(int_queue)),"
    " rf.Dequeue(int_queue).for_each(double))",
    "a background operator": "(b := rf.Background(word)) and queued("
    "int_flow.for_each(rf.Enqueue(b.inqueue)), rf.Dequeue(b.outqueue).for_each(length))",
    "fresh": "int_flow.fresh(max_lag=1, size=half).for_each(double)",
    # callables
    "a lambda": "ints.for_each(lambda x: str(x))",
    "behind a lambda": "ints.for_each(lambda x: str(x)).for_each(length)",
    "a filter by lambda": "ints.filter(lambda x: x > 2).for_each(double)",
    "a partial": "ints.for_each(functools.partial(power, exponent=2)).for_each(double)",
    "a partial with the first argument": "ints.for_each(functools.partial(power, 2))",
    "a bound method": "strs.for_each(Scale(2).apply).for_each(length)",
    "a callable object": "ints.for_each(Scale(2)).for_each(shout)",
    "an operator": "str_flow.for_each(Count()).for_each(double)",
    "with a context": "int_flow.for_each(plus_context).for_each(double)",
    "a class": "strs.for_each(Order)",
    "built-in classes": "ints.for_each(float).for_each(str).for_each(length)",
    "range": "ints.for_each(range).for_each(totals)",
    "len": "strs.for_each(len).for_each(double)",
    "a method of a built-in class": "strs.for_each(str.upper).for_each(length)",
    "a method of a class": "ints.for_each(a_dog).for_each(Dog.bark).for_each(length)",
    "an inherited method": "ints.for_each(a_dog).for_each(Animal.name).for_each(length)",
    "generic functions": "ints.for_each(same).for_each(listed).for_each(first).for_each(double)",
    "within the constraints": "ints.for_each(plus).for_each(double)",
    "within a bound": "ints.for_each(twice).for_each(shortest).for_each(total)",
    "out of a box": "ints.for_each(boxed).for_each(unbox_any).for_each(double)",
    "out of a derived box": "ints.for_each(int_boxed).for_each(unbox_any).for_each(double)",
    "a decorator that changes the type": "ints.for_each(stringly)",
    "unknown types": "ints.for_each(anything).for_each(length)",
    "a name that is nowhere": "ints.for_each(anything).for_each(lost)",
    # types
    "a new type to what it is made from": "ints.for_each(in_metres).for_each(shout)",
    "a new type": "ints.for_each(in_metres).for_each(climb)",
    "a named tuple": "ints.for_each(a_point).for_each(far)",
    "a typed dict": "ints.for_each(a_movie).for_each(title)",
    "a tuple": "ints.for_each(couple).for_each(left)",
    "a mapping": "ints.for_each(table).for_each(numbers)",
    "a literal to text": "ints.for_each(colour).for_each(length)",
    "a protocol": "ints.for_each(a_file).for_each(close)",
    "a function": "ints.for_each(callback).for_each(calls_rightly)",
    "an array": "ints.for_each(array).for_each(norm)",
    "a tensor": "ints.for_each(tensor).for_each(detached)",
    # sources
    "items": "rf.from_items([[1], [2, 3]]).for_each(total)",
    "empty lists among items": "rf.from_items([[], [1]]).flatten().for_each(double)",
    "iterators": "rf.from_iterators([countdown, countdown]).for_each(double)",
    "actors": "rf.from_actors(rf.Actors.of(Worker, 2)).for_each(double)",
    "a method itself": "rf.from_actors(rf.Actors.of(Worker, 2), Worker.text).for_each(length)",
    "without annotation": 'rf.from_actors(rf.Actors.of(Worker, 2), "untold").for_each(length)',
    "actors of a generic class": "rf.from_actors(rf.Actors.of(Texts, 2)).for_each(length)",
    # reinforcement learning
    "A3C": "ReportMetrics(grads.for_each(ApplyGradients(workers)), workers)",
    "A3C with pairs": "grads.zip_with_source_actor().for_each(ApplyGradients(workers))",
    "gradients of rounds": "rollouts.par_for_each(ComputeGradients()).gather_sync()"
    ".for_each(AverageGradients()).for_each(ApplyGradients(workers))",
    "averaged gradients": "grads.batch(4).for_each(AverageGradients())"
    ".for_each(ApplyGradients(workers)).for_each(UpdateTargetNetwork(workers, 9))",
    "one batch a round": 'ParallelRollouts(workers, mode="bulk_sync").combine(ConcatBatches(9))'
    '.for_each(StandardizeFields(["rewards"])).for_each(TrainOneStep(workers))',
    "batches one by one": "rollouts.gather_sync().flatten().combine(ConcatBatches(100))",
    "store and update": "batches.for_each(StoreToReplayBuffer(replay)).zip_with_source_actor()"
    ".for_each(UpdateWorkerWeights(workers))",
    "replay": "Replay(replay).for_each(UpdateReplayPriorities(workers))"
    ".for_each(TrainOneStep(workers)).for_each(UpdateReplayPriorities())",
    "a learner": "queued(Replay(replay).zip_with_source_actor()"
    ".for_each(rf.Enqueue(learner.inqueue)), rf.Dequeue(learner.outqueue)"
    ".for_each(UpdateReplayPriorities()).for_each(TrainOneStep(workers)))",
    "meta-learning": "ParallelRollouts(meta_workers).gather_sync()"
    ".combine(InnerAdapt(meta_workers, steps=2)).for_each(MetaUpdate(meta_workers))",
    "several policies": "[ppo.plan(Select(one, policy=name), two_policies) for one, name"
    ' in zip(ParallelRollouts(two_policies).split(), ("left", "right"))]',
    "PPO": "ppo.plan(rollouts, workers)",
    "A3C's plan": "a3c.plan(ParallelRollouts(w := create_rollout_workers(a3c.Config())), w)",
    "Ape-X's plan": "apex.plan(ParallelRollouts(w := create_rollout_workers(apex.Config())), w)",
}
