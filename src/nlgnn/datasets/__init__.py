"""Where graphs come from: named public datasets, graphs that ship with the package, graphs made by rule.

The public names stand in `__init__.pyi`. Each is imported when it is first used: listing the catalogue waits for
nothing, and nothing here needs torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
