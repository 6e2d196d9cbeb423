"""Graphs from users' own tables and graph files.

The public names are listed in `__init__.pyi`. Each is imported on first use, and nothing here imports torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
