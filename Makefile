# make demo    chooses a model for the tables in examples/, and trains on the graph that ships with the package
# make test    runs the tests; make test-slow those that take long
# make pictures  draws the sorted sequence, takes the picture of the report with Chromium, and makes the reports in
#   docs/examples, for which the graph Chameleon is read from NLGNN_DATA or downloaded (20 minutes)
# make leaderboard  runs the first command of README.md and writes its leaderboard into README.md and docs/start.md (2 minutes)
# make docs    builds the documentation site in docs/_build/html, and runs its notebooks (2 minutes)
# make fuzz    reads 10,000 random inputs of every format and writes docs/results/fuzz.md (15 minutes)
# make kills   kills train, auto, tune, predict, store and training over several processes 1,000 times, at random and at
#   every change of a file (an hour)
# make test-lowest  installs the lowest versions of constraints-lowest.txt into .venv-lowest and runs the tests there
# make licences  lists the licences of all installed packages
# make long-run  measures the memory of one process over two hours
# make measure  counts the code, the modules that a call passes, and the lines of the help
# make bench   times our models and PyTorch Geometric's, up to 2.9 million nodes: hours, and 24 GB of memory
# make bench-short  compares with PyTorch Geometric in less than 10 minutes
# All make .venv first, with everything pinned in constraints.txt. PIP_ARGS= is passed on to pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
PIP := $(BIN)/python -m pip install --disable-pip-version-check $(PIP_ARGS) --constraint constraints.txt

.PHONY: demo test test-slow docs bench leaderboard measure pictures fuzz kills licences long-run test-lowest clean
.PHONY: bench-short

demo: $(INSTALLED)
	$(BIN)/nlgnn train --nodes examples/accounts.csv --edges examples/payments.csv --label is_fraud --time-budget 40s
	$(BIN)/nlgnn demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 -m slow

docs: $(INSTALLED)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --large

bench-short: $(INSTALLED)
	$(BIN)/python -m benchmarks --short

leaderboard: $(INSTALLED)
	$(BIN)/python tools/update_leaderboard.py

fuzz: $(INSTALLED)
	$(BIN)/python -m tools.fuzz --cases 10000 --out docs/results/fuzz.md

kills: $(INSTALLED)
	NLGNN_KILLS=1000 $(BIN)/python -m pytest -n 2 -m slow tests/cli/test_killed.py

licences: $(INSTALLED)
	$(BIN)/python tools/list_licences.py

long-run: $(INSTALLED)
	$(BIN)/python tools/measure_long_run.py --minutes 120

# Not part of CI. --no-build-isolation needs the build tools in the environment.
test-lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install $(PIP_ARGS) --constraint constraints-lowest.txt hatchling editables
	.venv-lowest/bin/python -m pip install $(PIP_ARGS) --constraint constraints-lowest.txt --no-build-isolation --editable '.[dev]'
	.venv-lowest/bin/python -m pytest -n 2

measure: $(INSTALLED)
	$(BIN)/python tools/measure_code.py

pictures: $(INSTALLED)
	rm -rf runs/pictures
	$(BIN)/nlgnn demo --out runs/pictures --picture docs/sorted-sequence.svg
	$(BIN)/python tests/report/take_pictures.py runs/pictures/*-nlgcn/report.html docs/report.png
	$(BIN)/nlgnn train --nodes examples/accounts.csv --edges examples/payments.csv --label is_fraud --out runs/pictures/rare-class
	$(BIN)/nlgnn train chameleon --model nlgcn --controls --runs 3 --epochs 600 --out runs/pictures/chameleon
	for name in rare-class chameleon; do sed "s|$(CURDIR)/||g" runs/pictures/$$name/report.html > docs/examples/$$name.html; done

clean:
	rm -rf $(VENV)

# The stamp is written last: after an interruption, the next make starts the installation again.
$(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not there; name a Python 3.11 or later: make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is $$($(PYTHON) -V 2>&1); nlgnn needs Python 3.11 or later: make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: $(PYTHON) lacks its venv module; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Installing into $(VENV). Download: about 0.4 GB with a CPU build of torch; torch's CUDA build for Linux adds several GB"
	@echo "(PIP_ARGS passes options to pip, such as the index of a CPU-only torch)."
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@
