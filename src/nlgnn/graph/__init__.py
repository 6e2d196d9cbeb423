"""Graphs, their splits, homophily measures, audits, and conversion from and to other libraries.

The public names are listed in `__init__.pyi`; each is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Imported here because the function has the name of its module, which would hide it.
from nlgnn.graph.audit import audit as audit  # noqa: E402
