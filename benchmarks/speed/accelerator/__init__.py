"""What the form for accelerators costs: ``python -m benchmarks.speed.accelerator``, one call of less than ten minutes.

* `run`: the parts, how long each may take, in a process that may crash or hang; the file is written after each
* `forests`: forests of any depth, made without fitting
* `timing`: first calls and later ones
* `routing`: the mean by depth, trees and rows; the size of a call, and the loop in place of unrolled levels
* `rules`: every rule, cautious reports and settled votes
* `algorithms`: growing, learning
* `answers`: what has to be as on a CPU, and whether it is
* `nvforest`: another library, where it is installed
"""
