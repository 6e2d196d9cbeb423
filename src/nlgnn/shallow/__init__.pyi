from .base import Contributions as Contributions
from .base import ShallowModel as ShallowModel
from .forest import Forest as Forest
from .logistic import Logistic as Logistic
from .trees import Trees as Trees
