"""The colours of classes, in pictures and on the console alike."""

from __future__ import annotations

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
UNKNOWN = "#D8D8D8"  # nodes without a label
