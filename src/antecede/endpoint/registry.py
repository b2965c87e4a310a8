"""The registry: every protocol by name, and how to make views and endpoints."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType, ModuleType
from typing import Final

from antecede.endpoint.arguments import LIMIT_MAX, as_flag, as_number, as_option, distinct_names
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.info import CITATION_FORM, Citation, ProtocolInfo
from antecede.endpoint.messages import ControlSize, Packet
from antecede.endpoint.rules import Rules
from antecede.endpoint.saved import SAVED_MAX, Saved
from antecede.endpoint.view import CACHE_MAX, View
from antecede.errors import UsageError, listed, meant, shown

_rules: dict[str, type[Rules]] = {}
_infos: dict[str, ProtocolInfo] = {}
_views: dict[str, View] = {}
PROTOCOLS: Final[Mapping[str, ProtocolInfo]] = MappingProxyType(_infos)
"""The protocols to choose from, by name."""
MEMBERS_MAX: Final = 1 << 16
_LIMITS: Final = ("held_max", "held_bytes_max", "queue_max")


def register(module: ModuleType) -> None:
    """Register the protocol of a module; its rules are the class with the same name."""
    name, citation = module.__name__.rpartition(".")[2], Citation.first_of(module.__doc__)
    wanted = name.title().replace("_", "")
    rules: type[Rules] | None = getattr(module, wanted, None)
    assert rules, f"{name}.py has no class {wanted}; name its rules so"
    assert citation.tag, f"the References in {name}.py must begin with {CITATION_FORM}"
    paper = rules.INFO.paper or f"{', '.join(citation.surnames)} {citation.year}"
    info = _infos[name] = replace(rules.INFO, name=name, paper=paper, citation=citation)
    for made in vars(module).values():  # these rules, and those for some options
        if (
            isinstance(made, type)
            and issubclass(made, Rules)
            and made.__module__ == module.__name__
        ):
            made.INFO = info
    _rules[name] = rules


def rules_of(name: object) -> type[Rules]:
    """Return the rules behind a protocol's name."""
    if not isinstance(name, str) or name not in _rules:
        raise UsageError(f"unknown protocol {shown(name)}; {meant(name, _rules)}")
    return _rules[name]


def endpoint(
    protocol: str,
    *,
    process: str,
    members: Iterable[str],
    view: int = 0,
    pull: bool = False,
    **options: object,
) -> Endpoint:
    """Make one process's endpoint of a protocol.

    ``members`` are all processes, in the same order everywhere, and ``view`` is the number of their
    view: when members change, the next view has new endpoints. ``held_max`` limits the packets
    held, ``held_bytes_max`` their payloads (half of both is divided among the peers), and
    ``queue_max`` the messages that wait to be sent. The other options are the protocol's own
    (``antecede.PROTOCOLS[protocol].options``). With ``pull=True`` only ``take`` delivers; ready
    messages count against ``held_max`` too, and the last place is reserved for one of them.
    """
    given = [name for name in _LIMITS if name in options]
    limits = {name: as_number(0)(name, options.pop(name)) for name in given}
    made = view_of(protocol, members, number=view, **options)
    if not isinstance(process, str) or process not in made.numbers:
        msg = f"process {shown(process)} is not a member; the members are {listed(made.members)}"
        raise UsageError(msg)
    flag = as_flag("pull", pull)
    return Endpoint(made, process, rules_of(protocol).of(made), pull=flag, **limits)


def view_of(protocol: str, members: Iterable[str], *, number: int = 0, **options: object) -> View:
    """Return a view; equal views are the same object while they are cached."""
    rules = rules_of(protocol)
    names = distinct_names("members", members)
    if not 1 <= len(names) <= MEMBERS_MAX:
        msg = f"got {len(names)} members; expected 1 to {MEMBERS_MAX}, this process included"
        raise UsageError(msg)
    if type(number) is not int or not 0 <= number <= SAVED_MAX:
        raise UsageError(f"view={shown(number)} is not the number of a view; expected 0 or more")
    if unknown := [name for name in options if name not in rules.INFO.options]:
        known = ", ".join([*rules.INFO.options, *_LIMITS, "view", "pull"])
        raise UsageError(f"{protocol} has no option {unknown[0]!r}; it takes {known}")
    chosen = {
        name: as_option(option, name, options.get(name, option.default), names)
        for name, option in rules.INFO.options.items()
    }
    rules.check_options(chosen, names)
    made = View(number, names, protocol, chosen)
    key = repr((number, names, protocol, chosen))
    if key not in _views:
        if len(_views) >= CACHE_MAX:
            _views.clear()
        made.forms = rules.of(made).forms(made)
        _views[key] = made
    return _views[key]


def restored(
    view: View, state: object, *, resumed: bool, rules: type[Rules] | None = None
) -> Endpoint:
    """Return the endpoint that had a state; a ValueError says what no process can have."""
    saved = Saved("snapshot", state)
    process, pull = saved.field("process", "", str), saved.field("pull", value=False, kind=bool)
    saved.require(process in view.numbers, "process", process, f"one of {listed(view.members)}")
    limits = {name: saved.number(name, 0, 0, LIMIT_MAX) for name in _LIMITS}
    made = Endpoint(view, process, rules or rules_of(view.protocol).of(view), pull=pull, **limits)
    made.load(saved, resumed=resumed)
    return made


def size(packet: Packet) -> ControlSize:
    """Return the size of a packet's control: entries, destinations, and bytes in the model."""
    if not isinstance(packet, Packet):
        raise UsageError(f"size() takes a Packet, got {type(packet).__name__}")
    measured: ControlSize = packet.content.view.forms.measure(packet)
    return measured
