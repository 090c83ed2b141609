"""Words without exceptions on the pages: each has a test that fails without it, named here, or it is not written."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).parent.parent
STRONG = re.compile(
    r"\b(?:exactly|always|never|same bits|identical|guarantee\w*|rounded correctly|nearest float)\b"
    r"|\bto the (?:last )?bit\b|bit for bit",
    re.IGNORECASE,
)
NO_CLAIM = "says nothing of answers"
TOLD = {
    "jaxunc imports the forest exactly": "inference/test_leaves.py::test_leaves",
    "tensor never exists": "inference/test_compiled.py::test_a_fold_needs_twenty_megabytes_at_most",
    "trees and classes never exists": "inference/test_compiled.py::test_a_fold_needs_twenty_megabytes_at_most",
    "so does always deciding": "test_page_numbers.py::test_sets_of_classes",
    "a cautious forest gains over always deciding": "test_page_numbers.py::test_sets_of_classes",
    "I need a guarantee": "benchmarks/test_sets.py::test_what_the_docs_say",
    "**With a guarantee.** 90 % of all rows": "benchmarks/test_sets.py::test_what_the_docs_say",
    "its aleatoric variance, exactly": "explanations/test_models.py::test_a_mean_and_its_aleatoric_variance",
    "there is no guarantee": NO_CLAIM,
    "The guarantee is for rows drawn": "benchmarks/test_sets.py::test_a_promise_is_kept_within_binomial_error",
    "and keeps the forest as it is, to the bit": "test_readme.py::test_pages_inside_other_programs_run",
    "# the bound forest's, to the last bit": "inference/test_same_bits.py::test_an_answer_stands_alone",
    "Answers are those of the same dense data, to the bit": "estimators/test_sparse.py::test_counts",
    "hands out these weights, exactly": "proximity/test_neighbours.py::test_weighted_targets_are_the_prediction",
    "ju.load gives it back, answers bit for bit": "storage/test_round_trip.py::test_bound_forests",
    "they come, exactly": "tables/test_columns.py::test_traced_numbers_are_compared_as_they_are",
    "class scores to the bit": "inference/test_bind.py::test_the_bits_of_the_bound_forest",
    "Those trees are never grown": "transduction/test_certainty.py::test_the_same_integers",
    "no table that keeps a mean exactly": NO_CLAIM,
    "holds this to the bit": "inference/test_same_bits.py::test_an_answer_stands_alone",
    "It need not be the nearest float": "combiners/test_shares.py::test_how_far_a_mean_is_from_the_true_one",
    "*Finish* never asks how many trees": "inference/test_merge_leaves.py::test_a_mask_drops_trees",
    "Files are data and never code": "storage/test_round_trip.py::test_own_classes_are_refused_unless_they_are_passed",
    "each combiner's answers the same bits alone and among others": "test_page_numbers.py::test_a_gpu",
    'always = {"always one class"': NO_CLAIM,
    "reference=always": NO_CLAIM,
}


def pages() -> list[Path]:
    """The README and the pages of the documentation, without the history."""
    return [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.stem != "changelog")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_each_strong_word_is_held(page):
    said = " ".join(page.read_text(encoding="utf-8").split())
    held = [span for words in TOLD for span in (match.span() for match in re.finditer(re.escape(words), said))]
    for word in STRONG.finditer(said):
        place = said[max(word.start() - 60, 0) : word.end() + 30]
        assert any(start <= word.start() < end for start, end in held), f"name the test of this, or say less: …{place}…"


def test_what_is_told_is_still_said_and_tested():
    said = " ".join(" ".join(page.read_text(encoding="utf-8") for page in pages()).split())
    for words, held_by in TOLD.items():
        assert words in said, f"no page says any more: {words}"
        if held_by != NO_CLAIM:
            path, name = held_by.split("::")
            assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), held_by
