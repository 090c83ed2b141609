"""Cells of text files that hold no number: missing values and bools."""

MISSING_WORDS: tuple[str, ...] = (
    *("", "?", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A"),
    *("NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Cells that mean a missing value, where nothing else is said. What pandas reads as one is among them."""

TRUE_WORDS: tuple[str, ...] = ("true", "True", "TRUE")
FALSE_WORDS: tuple[str, ...] = ("false", "False", "FALSE")
