"""scale: sizes that double, a hierarchy of many levels, and extrapolations that say so."""

import json
from typing import Any

import antecede
from antecede.study import measuring
from antecede.study.design import PAPER, QUICK
from antecede.study.experiments import scale


def leaves(tree: Any) -> list[str]:
    return [tree] if isinstance(tree, str) else [name for part in tree for name in leaves(part)]


def depth(tree: Any) -> int:
    return 0 if isinstance(tree, str) else 1 + max(map(depth, tree))


def test_clusters_of_four_cover_all_at_every_size() -> None:
    for n in (1, 4, 5, 16, 17, 64, 300):
        trees = scale.levels(n)
        assert len(trees) <= 4
        assert sorted(leaves(trees)) == sorted(f"p{number}" for number in range(n))
        names = tuple(f"p{number}" for number in range(n))
        antecede.endpoint("hierarchy", process="p0", members=names, clusters=trees)
    assert depth(scale.levels(300)) > depth(scale.levels(16)) > 1


def test_a_longer_study_runs_more_processes() -> None:
    quick, long = ({case.x for case in scale.cases(one)} for one in (QUICK, PAPER))
    assert max(long) >= 4 * max(quick)
    assert {case.series for case in scale.cases(QUICK)} == set(scale.SERIES)


def test_what_is_passed_on_is_counted() -> None:
    """A tree sends a packet for each link; flooding a name on each."""
    found = {}
    for case in scale.cases(QUICK):
        if (
            case.series in ("tree", "flooding")
            and case.seed == 1
            and case.x == min(scale.QUICK_SIZES)
        ):
            row = {
                "protocol": case.protocol,
                "series": case.series,
                "options": json.dumps(case.options),
                "workload": case.workload,
                "arguments": json.dumps(case.arguments),
                "seed": case.seed,
                "data": None,
            }
            found[case.series] = scale.measure(measuring.unpack(row))
    assert found["tree"][scale.BYTES] == 0
    assert 0 < found["tree"][scale.PACKETS] < 1
    assert found["flooding"][scale.BYTES] >= 6 * 5
    assert found["flooding"][scale.PACKETS] > found["tree"][scale.PACKETS]
