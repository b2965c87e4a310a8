"""The words with which all sorts of logs say that something was sent or delivered."""

from __future__ import annotations

from antecede.events.tables import DELIVER, LOCAL, SEND

#: Verbs, in any form and case.
VERBS = {
    SEND: "send publish produce emit forward relay broadcast multicast flood post",
    DELIVER: "deliver receive consume handle process",
}
#: Other words.
WORDS = {
    SEND: "sent snd emitted emitting pub put tx out > ->",
    DELIVER: "delivery recv rcv rcvd got get sub rx in < <-",
    LOCAL: "local event internal",
}


def _forms(verb: str) -> tuple[str, ...]:
    """Return the regular forms of a verb."""
    stem = verb.removesuffix("e")
    return verb, f"{verb}s", f"{verb}es", f"{stem}ed", f"{stem}ing"


#: The kind of event that each word means.
KIND_OF = {
    **{
        form: kind
        for kind, verbs in VERBS.items()
        for verb in verbs.split()
        for form in _forms(verb)
    },
    **{word: kind for kind, words in WORDS.items() for word in words.split()},
}


def kind_of(word: str) -> str | None:
    """Return the kind of event that a word means, or None."""
    return KIND_OF.get(word.strip().lower())
