# Everything needed is set up in .venv by the first command that is run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test slow check docs bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,attacks,art,export,serve,ray,huggingface,sklearn]'
	touch $(STAMP)

demo: setup
	$(BIN)/alu demo

test: check
	$(BIN)/alu data cifar10 --split test > /dev/null || echo "CIFAR-10 could not be fetched; tests that need all of it are skipped."
	$(BIN)/python -m pytest -n auto

# The fit of Fashion-MNIST has ten minutes on all cores, so it runs alone; the others run beside each other.
FIT := tests/slow/test_fashion_mnist.py

slow: setup
	$(BIN)/alu data cifar10 --split test > /dev/null
	$(BIN)/python -m pytest -m slow --durations=0 $(FIT)
	$(BIN)/python -m pytest -m slow --durations=0 --ignore=$(FIT) -n auto --maxschedchunk 1 -p no:randomly

check: setup
	$(BIN)/ruff check src tests bench examples tools
	$(BIN)/ruff format --check src tests bench examples tools
	$(BIN)/mypy

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build
	@echo "Documentation: docs/_build/index.html"

bench: setup
	$(BIN)/python bench/latency.py
	$(BIN)/python bench/attacks.py
	$(BIN)/python bench/predict.py
	$(BIN)/python bench/training.py
	$(BIN)/python bench/refusal.py
	$(BIN)/python bench/export.py
	$(BIN)/python bench/serve.py --write
	$(BIN)/python bench/large_pictures.py
	$(BIN)/python bench/workers.py

clean:
	rm -rf $(VENV) demo docs/_build
