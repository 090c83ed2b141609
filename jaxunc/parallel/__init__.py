"""Bound forests over many devices and hosts: instances and trees distributed over a mesh, answers as on one device."""

from ._shard import ShardedForest, shard

__all__: list[str] = []  # users call `jaxunc.shard`
