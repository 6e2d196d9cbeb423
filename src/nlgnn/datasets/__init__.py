"""Named public graphs, graphs that ship with the package, and synthetic graphs.

The public names are listed in `__init__.pyi`. Each is imported on first use, so that listing the catalogue is fast;
nothing here imports torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
