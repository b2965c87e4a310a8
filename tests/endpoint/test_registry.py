"""Making endpoints: what is refused, and what the registry says."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources

import pytest

import antecede
from antecede.check import PROPERTIES


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"protocol": "optmal"}, "unknown protocol 'optmal'; did you mean optimal"),
        ({"protocol": "zzz"}, "unknown protocol 'zzz'; known: "),
        ({"process": "x"}, "process 'x' is not a member; the members are a, b"),
        ({"members": "ab"}, "members is the string 'ab'"),
        ({"members": ("a", "a")}, "names a more than once"),
        ({"members": ("a", "")}, "member '' is not a name"),
        ({"speed": 3}, "optimal has no option 'speed'; it takes hardware_multicast"),
        ({"held_max": -1}, "held_max=-1 is not an integer from 0"),
        ({"held_max": "3"}, "held_max='3' is not an integer from 0"),
        ({"lookahead": "yes"}, "lookahead='yes' is neither True nor False"),
    ],
)
def test_a_wrong_call_is_one_line(call: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"protocol": "optimal", "process": "a", "members": ("a", "b")}
    with pytest.raises(antecede.UsageError, match=words) as caught:
        antecede.endpoint(**(arguments | call))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_every_entry_is_complete() -> None:
    for name, info in antecede.PROTOCOLS.items():
        assert name == info.name
        for text in (info.idea, info.paper, info.guarantee, info.assumptions, info.cost):
            assert text
        assert set(info.casts) <= {"unicast", "multicast", "broadcast", "groups"}
        assert info.casts
        assert info.promises <= PROPERTIES.keys()
        for option in info.options.values():
            assert option.doc


def test_the_registry_is_read_only() -> None:
    with pytest.raises(TypeError):
        antecede.PROTOCOLS["mine"] = antecede.PROTOCOLS["matrix"]  # type: ignore[index]


def test_every_protocol_works_with_members_alone() -> None:
    for name in antecede.PROTOCOLS:
        end = antecede.endpoint(name, process="a", members=("a", "b", "c"))
        assert end.held == 0
        assert end.waiting() == {}


def test_importing_antecede_imports_nothing_foreign() -> None:
    code = (
        "import sys; before = set(sys.modules); import antecede\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'antecede'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.strip() == "[]"


def test_dir_lists_every_public_name_before_it_is_used() -> None:
    code = "import antecede; print(set(antecede.__all__) - set(dir(antecede)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"
    for name in antecede.__all__:
        assert getattr(antecede, name) is not None


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert resources.files("antecede").joinpath("py.typed").is_file()
