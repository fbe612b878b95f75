# make demo, make test and make check need nothing but Python 3.11: each makes .venv first.

BIN := .venv/bin
READY := .venv/.complete

.PHONY: setup demo test check bench lock clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml bin/setup
	@bin/setup

demo: setup
	@$(BIN)/mailer demo $(if $(PROVIDER),--provider $(PROVIDER)) $(ARGS)

test: setup
	@$(BIN)/pytest --numprocesses 2 --dist loadfile $(ARGS)

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: setup
	@$(BIN)/python -m benchmarks $(ARGS)

# Pins every package and its hashes for every platform, and names no registry.
lock: setup
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --only-binary :all: \
		--extra test --extra check --extra build $(ARGS) \
		pyproject.toml --output-file requirements.lock
	@! grep -n '://' requirements.lock

clean:
	rm -rf .venv .uv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
