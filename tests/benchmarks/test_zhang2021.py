"""The study of cautious forests: tallies of sets, cells resumed to the byte, a page that says what they hold."""

import numpy as np
import pytest

import jaxunc as ju
from benchmarks.studies.zhang2021 import page
from benchmarks.studies.zhang2021 import run as study
from tests.benchmarks._small import small_set

pytestmark = pytest.mark.once


def test_measures_of_a_tally_are_those_of_the_sets():
    rng = np.random.default_rng(0)
    sets, y = rng.random((200, 4)) < 0.4, rng.integers(0, 4, 200)
    sets[~sets.any(axis=1), 2] = True
    tally = study.tally(sets, y)
    assert tally[::2].sum() == 200
    for name, expected in {
        "u50": ju.metrics.discounted_utility(sets, y, kind=50),
        "u65": ju.metrics.discounted_utility(sets, y, kind=65),
        "u80": ju.metrics.discounted_utility(sets, y, kind=80),
        "determinacy": ju.metrics.determinacy(sets),
        "single": ju.metrics.single_set_accuracy(sets, y),
        "size": ju.metrics.set_size(sets),
    }.items():
        assert page.measure(tally, name) == pytest.approx(float(expected), abs=1e-6), name
    assert np.isnan(page.measure([0, 0, 5, 5], "single"))


def test_a_cell(monkeypatch):
    for name, value in {"N_REPEATS": 2, "N_FOLDS": 2, "N_TREES": 5, "STRENGTHS": (1, 4)}.items():
        monkeypatch.setattr(study, name, value)
    found = study.run_cell(study.Cell("sonar", 5, 0), small_set("sonar", 60))
    for rules in found.values():
        assert list(rules) == ["mean", *page.RULES]
        assert sum(rules["mean"][::2]) == 60, "every instance is tested once"
        assert rules["mean"][2:] == [0, 0]
        for rule in page.RULES:
            assert np.sum(rules[rule], axis=1, where=[True, False] * 2).tolist() == [60, 60]
            assert rules[rule][0][0] >= rules[rule][1][0], "a larger s decides on less"


def test_what_the_page_says():
    kept = study.STUDY.parts["main"].kept(study.RESULTS)
    two, more = (page.of_classes(kept, binary=binary) for binary in (True, False))
    assert (len(two), len(more)) == (8, 6)
    masses, at = page.RULES[:-1], page.STRENGTHS.index
    both = {"inbag": (1, "inbag"), "oob": (1, "oob")}

    def mean(setting, rule, name, sets=two):
        return page.values(sets, setting, rule, name).mean(axis=0)

    exceptions = []
    for setting in page.SETTINGS:
        for mass in masses:
            own, others = (page.values(two, setting, rule, "determinacy") for rule in (mass, "averaged"))
            apart = own - others
            exceptions.append((setting, int((apart < 0).sum()), apart.min(), apart.mean(axis=0).min()))
    assert sum(n for setting, n, *_ in exceptions if setting[0] == 1) == 0
    assert sum(n for _, n, *_ in exceptions) == 19
    assert min(least for *_, least, _ in exceptions) > -0.035
    assert min(of_mean for *_, of_mean in exceptions) > -0.0025
    inbag, oob = both["inbag"], both["oob"]
    gain = {mass: mean(inbag, mass, "u65") - mean(inbag, "averaged", "u65") for mass in masses}
    assert min(line[at(5) :].min() for line in gain.values()) > 0.0105
    assert max(line[at(5)] for line in gain.values()) < 0.0245
    assert [round(gain[mass][-1], 3) for mass in masses] == [0.022, 0.078, 0.067]
    assert all(-0.0195 < v < -0.0085 for line in gain.values() for v in line[:2])
    best = {rule: round(mean(inbag, rule, "u65").max(), 3) for rule in page.RULES}
    assert best == {"equal": 0.846, "leaf_size": 0.832, "certainty": 0.844, "averaged": 0.847}
    bounds = {"equal": (-0.0012, -0.0005), "leaf_size": (-0.0125, -0.009), "certainty": (-0.0045, -0.003)}
    for mass, (low, high) in bounds.items():
        assert low < page.beside(two, inbag, mass, "averaged").mean() < high
        assert low < -page.beside(two, inbag, "averaged", mass).mean() < high
    deciding = mean(inbag, "mean", "u65")
    lost = {rule: round(mean(inbag, rule, "u65")[-1] - deciding, 3) for rule in page.RULES}
    assert (lost["certainty"], lost["equal"], lost["averaged"]) == (-0.04, -0.084, -0.106)
    assert max(lost.values()) < 0
    certainty = mean(inbag, "certainty", "u65") - mean(inbag, "equal", "u65")
    assert (round(certainty[at(5)], 3), round(certainty[-1], 3)) == (0.01, 0.045)
    size = mean(inbag, "leaf_size", "u65") - mean(inbag, "certainty", "u65")
    assert np.all((size > 0.006) == (np.array(page.STRENGTHS) >= 15))
    assert size.max() < 0.0115
    assert mean(inbag, "leaf_size", "u65").max() < deciding
    for name, gained, strengths in (("u65", 0.01, (2, 3)), ("u80", 0.045, (5, 7))):
        line = mean(inbag, "equal", name)
        assert round(line.max() - deciding, 3) == gained
        assert page.STRENGTHS[line.argmax()] in strengths
    assert max(mean(inbag, rule, "u50").max() for rule in page.RULES) - deciding < 0.001
    assert mean(inbag, "equal", "determinacy")[at(1)] > 0.999
    assert mean(oob, "equal", "determinacy")[[at(1), at(2)]].round(2).tolist() == [0.79, 0.58]
    reached = [round(mean(setting, "equal", name).max(), 3) for setting in (inbag, oob) for name in ("u65", "u80")]
    assert reached == [0.846, 0.881, 0.834, 0.879]
    for setting, of_masses, baseline in ((inbag, (0.794, 0.805), 0.816), (oob, (0.807, 0.818), 0.781)):
        found = [round(mean(setting, mass, "u65", more).max(), 3) for mass in masses]
        assert (min(found), max(found)) == of_masses
        assert round(mean(setting, "averaged", "u65", more).max(), 3) == baseline
        for mass in masses:
            for name in ("u65", "determinacy"):
                apart = mean(setting, mass, name, more) - mean(setting, "averaged", name, more)
                assert np.all(apart[at(5) :] >= 0)
    assert round(mean(oob, "mean", "u65", more), 3) == 0.806
    liver = [page.measure(page.tallies(kept["liver"], *inbag, "equal"), n)[at(20)] for n in ("determinacy", "single")]
    assert (round(liver[0], 3), liver[1]) == (0.004, 0.5)
    for name, found in more.items():
        sizes = page.tallies(found, 1, "inbag", "equal")[:, ::2]
        between = (sizes[:, 1:-1].sum(axis=1) / sizes.sum(axis=1)).max()
        assert 0.035 < between < 0.045 if name == "cmc" else between == 0
