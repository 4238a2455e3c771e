"""A pytest plugin (``-p tests.copied_comparisons``): a copy of the comparisons, installed as a package, is tested.

Tests that import the modules of `omega.schedulers.comparisons` get those of the package `house_comparisons`, which
imports them under its own name. Omega itself gets them too, where it offers methods and policies of the papers.
"""

import sys
from importlib import import_module
from pkgutil import iter_modules

OWN, COPY = "omega.schedulers.comparisons", "house_comparisons"

_package = sys.modules[OWN] = import_module(COPY)
for _each in sorted(module.name for module in iter_modules(_package.__path__)):
    sys.modules[f"{OWN}.{_each}"] = import_module(f"{COPY}.{_each}")
