"""Times in notations that people use, in seconds since 1970."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, time

#: Forms of dates besides ISO 8601.
_DATES = (
    "%m/%d/%Y %H:%M:%S.%f",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M:%S.%f",
    "%d/%b/%Y:%H:%M:%S %z",
)
#: From this number on, a time since 1970 counts milli-, micro- or nanoseconds.
_SECONDS_END = 1e11


def seconds(text: str | None) -> float | None:
    """Return a date, a time of day, or a number in seconds or smaller units, as seconds.

    A number that is too large for seconds counts milli-, micro- or nanoseconds.
    """
    if text is None:
        return None
    text = text.strip()
    try:
        number = float("" if "_" in text else text)
    except ValueError:
        return seconds_of_date(text)
    while abs(number) >= _SECONDS_END and abs(number) < _SECONDS_END * 1e9:
        number /= 1000
    return number if abs(number) < _SECONDS_END else None


def seconds_of_date(value: str | datetime) -> float | None:
    """Return a date or a time of day in seconds; without a zone it is in UTC."""
    if isinstance(value, str):
        with suppress(ValueError):
            day = datetime.combine(datetime(1970, 1, 1, tzinfo=UTC), time.fromisoformat(value))
            return day.replace(tzinfo=UTC).timestamp()
        for form in (None, *_DATES):
            try:
                date = (
                    datetime.fromisoformat(value.replace(",", "."))
                    if form is None
                    else datetime.strptime(value, form)  # noqa: DTZ007  (a zone is added below)
                )
            except ValueError:
                continue
            break
        else:
            return None
    else:
        date = value
    try:
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return None
