"""Answers over many devices and hosts, the same as on one: instances and trees distributed over a mesh."""

from ._shard import ShardedForest, shard

__all__: list[str] = []  # what users call stands at the root
