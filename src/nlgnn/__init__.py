"""Node classification on graphs whose neighbours disagree.

The public names stand in `__init__.pyi`. Each is imported when it is first used, so that `import nlgnn` needs no torch.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
