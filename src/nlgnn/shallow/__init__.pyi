from .base import Contributions as Contributions
from .base import ShallowModel as ShallowModel
from .forest import Forest as Forest
from .kernel import KernelClassifier as KernelClassifier
from .logistic import Logistic as Logistic
from .trees import Trees as Trees
