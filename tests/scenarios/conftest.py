"""The flag that rewrites the traces."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the traces produced into the scenario files"
    )
