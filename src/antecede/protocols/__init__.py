"""One module per published algorithm; importing this package registers them all.

The modules never import each other; a protocol that runs another inside asks the registry for it.
To add a protocol, add a module with its rules in a class of the same name: there is no list to
extend. Names with a leading underscore and packages are left out; the package ``specs`` has the
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
