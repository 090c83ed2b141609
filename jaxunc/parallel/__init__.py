"""Answers over many devices and hosts, the same as on one: instances and trees dealt out over a mesh."""

from ._shard import shard
from ._sharded_forest import ShardedForest

__all__ = ["ShardedForest", "shard"]
