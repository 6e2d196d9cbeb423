"""How much each option matters: the share of the variance of figures that it explains, by functional ANOVA."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from nlgnn.training.space import Space

FEWEST = 8  # settings; of fewer a forest says nothing that is true


def importances(space: Space, figures: Sequence[tuple[Mapping[str, Any], float]]) -> tuple[dict[str, float], str]:
    """Shares by option, largest first, or why there are none. The rest is of several options together, or chance."""
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    if len(space.searched) < 2:
        return {}, "one option alone is searched over" if space.searched else "nothing is searched over"
    if len(figures) < FEWEST:
        return {}, f"{len(figures)} settings are too few" if len(figures) != 1 else "one setting is too few"
    if len({value for _, value in figures}) == 1:
        return {}, "all settings came out the same"
    choices = space.choices()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its experimental notices
        study = optuna.create_study(direction="maximize")  # in memory: also of what was dropped on the way
        for setting, value in figures:
            study.add_trial(optuna.trial.create_trial(params=dict(setting), distributions=choices, value=value))
        try:
            found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), normalize=False)
        except (RuntimeError, ValueError) as error:
            return {}, str(error).rstrip(".")
    return {name: float(share) for name, share in found.items()}, ""  # largest first
