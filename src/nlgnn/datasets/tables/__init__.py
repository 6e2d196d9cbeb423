"""From a user's own tables to a graph: what is read, how its columns are understood, and what is said about it.

The public names stand in `__init__.pyi`; each is imported when it is first used, and nothing here needs torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
