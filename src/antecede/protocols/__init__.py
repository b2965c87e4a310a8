"""One module per published algorithm; importing this package registers them all.

The modules never import each other. Where one protocol runs another inside, it asks the registry.
To add a protocol, add its module, whose rules are a class of the same name: nothing here lists
them. A name with a leading underscore is left out, and so is a package: ``specs`` has the
algorithms as their papers print them.
"""

from importlib import import_module
from pkgutil import iter_modules

from antecede.endpoint.registry import register

__all__ = [
    module.name for module in iter_modules(__path__) if module.name[0] != "_" and not module.ispkg
]

for _name in __all__:
    register(import_module(f"{__name__}.{_name}"))
