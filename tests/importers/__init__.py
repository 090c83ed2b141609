"""A differential fuzzer of importers: random models of every library that is installed, asked as their library is.

    python -m tests.importers --models 2000 --seed 1
    python -m tests.importers --libraries xgboost --only 17     one model, by its seed alone

Every model comes from a random table, random settings of training and a random life behind it (saved, pickled, cut,
continued), goes in by every way that there is, and is asked about rows that decide at its thresholds. Held is an answer
like the library's own, leaf by leaf, and a refusal in words. Everything else is a fault, told with the command that
makes it again. Models that their library does not make or does not ask are counted apart, refusals by their reason.

A module a library: `make` trains one model and yields the ways in, `FLOOR` is the share of models that are answered at
least, `WAYS` are those that some models must go.
"""
