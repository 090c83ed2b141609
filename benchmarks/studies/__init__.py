"""The studies, a folder each: code, cells (``cells.jsonl.gz``, see `benchmarks.cells`), pictures and ``README.md``.

``README.md`` is made: its sentences are changed in ``page.md``, whose slots `benchmarks.pages` fills.

``python -m benchmarks NAME`` needs of a study's ``run.py`` a docstring whose first line says what it asks, and

* ``TAKES``: in a few words, how much there is to run;
* ``FLOAT64 = True`` where it computes in float64;
* ``options()``: the parser of its options, made by `benchmarks.cells.study_options`;
* ``run(args)``: runs the cells that are missing, part by part;
* ``write_page(folder)``: makes page, tables and pictures of the cells in a folder.

`benchmarks.cells.Study` makes the last three of a study's parts, each made by `benchmarks.cells.make_part`.

`open_questions.md` is written by hand: what the five papers left open, and what came of it.
"""
