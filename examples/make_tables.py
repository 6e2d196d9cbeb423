"""Make accounts.csv and payments.csv: accounts of which few are fraudulent, and payments between them.

python make_tables.py [FOLDER] [ACCOUNTS] [SEED]
"""

import sys
from pathlib import Path

from nlgnn.datasets.accounts import write_account_tables

if __name__ == "__main__":
    place, *numbers = sys.argv[1:] or ["."]
    write_account_tables(Path(place), *map(int, numbers))
