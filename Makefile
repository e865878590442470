# The front door. `make` alone lists what there is.
#
# Everything runs from .venv, which is made once, from hashed requirements, and again when those change. A tenant is
# checked and tested in its own folder, with its own configuration, as an outside team would do it.

PY ?= python3
SHELL := /bin/bash
BIN := .venv/bin
READY := .venv/.ready
TENANTS := $(patsubst %/pyproject.toml,%,$(wildcard tenants/*/pyproject.toml))
CODE := src tests docs models deploy $(wildcard bench examples)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install

# Tests start thousands of processes: each would compile the whole source again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo fleet-demo check test guards soak models bench torture docs packages requirements

help:  ## list the targets
	@echo "planrun: long jobs that finish exactly once"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with everything that the other targets need (they do it themselves)

demo: $(READY)  ## watch a video render survive a kill, a freeze and a deploy (90 s)
	@$(BIN)/python -m examples.demo.run

fleet-demo: $(READY)  ## watch each part of a fleet die and come back under a render (2-4 min; needs rabbitmq-server)
	@$(BIN)/python -m examples.fleet_demo.run $(if $(KEEP),--keep)

check: $(READY)  ## format, lint, types, import rules, house rules, core (under 1 min)
	@$(BIN)/ruff format --check --quiet $(CODE) $(TENANTS) || { echo "run: $(BIN)/ruff format $(CODE) $(TENANTS)"; exit 1; }
	@$(BIN)/ruff check --quiet $(CODE) $(TENANTS)
	@$(BIN)/mypy $(CODE)
	@for tenant in $(TENANTS); do (cd $$tenant && MYPYPATH=src:tests $(CURDIR)/$(BIN)/mypy --strict --explicit-package-bases src tests) || exit 1; done
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -q tests/tidy tests/core

# Four at once on two cores: they wait for half of their time.
test: $(READY) packages  ## every test, the tenants' too (under 15 min)
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not serial" || $(ONCE_MORE)
	$(BIN)/python -m pytest -m "serial" || $(ONCE_MORE)
	@for tenant in $(TENANTS); do (cd $$tenant && $(CURDIR)/$(BIN)/python -m pytest -n 2) || exit 1; done

guards: $(READY) packages  ## take down each guard in a copy: the test named for it must fail (under 20 min); NAME=x for a part
	@$(BIN)/python -m tests.guards $(if $(NAME),"$(NAME)")

# What failed beside others, or just after them, is asked once more, alone: these tests kill, freeze and cut real
# processes, and a machine is sometimes slower than any deadline. Both answers are in the output.
ONCE_MORE := { [ $$? -eq 1 ] && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }

SCRIPT ?= all
soak: $(READY) packages  ## long runs: SCRIPT=name|all (default all), MINUTES=n for a sample of that length
	@$(BIN)/python -m tests.soak $(SCRIPT) $(if $(MINUTES),--minutes $(MINUTES))

models: $(READY) packages  ## check the models of the protocol, whole and with each guard left out (about 5 min)
	@$(BIN)/python -m models.run $(NAME)

PEERS ?= huey
bench: $(READY)  ## measure planrun beside PEERS=huey,pgqueuer,… in short; bench/README.md has the long form
	@$(BIN)/python bench/compare.py --peers "$(PEERS)" --phases submit,bulk,drain,latency,kill,term \
	  --rounds 3 --jobs 500 --spaced 100 --long-s 20 --watch-s 25

torture: PEERS =
torture: $(READY)  ## kill, freeze and deploy under planrun and PEERS=celery,rq,…, and count what becomes of jobs (20 min)
	@$(BIN)/python -m bench.torture $(if $(PEERS),--peers "$(PEERS)")

docs: $(READY)  ## write the generated parts of docs/ anew
	@$(BIN)/python docs/generate.py

packages:  ## install the Debian packages that some tests need (as root; else say which are missing)
	@PY=$(PY) .ci/packages

requirements: $(READY)  ## resolve requirements/dev.txt anew (needs uv)
	@requirements/compile

# pip takes nothing here that is not in the hashed file: planrun and the tenants are installed as they lie, without
# looking for their dependencies or build tools.
$(READY): requirements/dev.txt pyproject.toml $(TENANTS:%=%/pyproject.toml)
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "planrun needs Python 3.11 or newer: install it, or name one, as in: make PY=python3.12 setup"; exit 1; }
	@$(PY) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "this Python cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "setting up .venv (once; about a minute)"
	@[ -x $(BIN)/python ] && $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PY) -m venv .venv
	@$(PIP) --require-hashes --no-deps -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation -e . $(TENANTS:%=-e %)
	@touch $@
