"""How fast forests are scored, against other engines: ``python -m benchmarks.speed``.

Modules whose first line names a command measure or draw something by themselves.
"""
