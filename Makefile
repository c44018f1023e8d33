# make setup      a virtual environment in .venv with the engine built and `narrows` installed; LOCKED=1 installs the
#                 versions of requirements.lock
# make dev        the same with an engine as the tests build it: it runs slower, and a rebuild takes seconds
# make reproduce  re-run the papers; options: ARGS="nodectl tab3 --quick"
# make check      format, lints, types, fast tests: before every commit
# make test       check, doctests, the laws, the slower Python tests, tests in real time
# make test-long  all other tests: whole papers, pictures, long fuzzing and hostile tests, real time at length
# make bench      data packets per second of the event loop
# make bench-parts nanoseconds per acknowledgement, packet and event of the parts
# make wasm       build the simulator for a browser, where the compiler has that target
# make redteam    the hostile tests in their long forms, and the table of what was tried
# make audit      licences, sources and advisories of dependencies
# make sbom       a CycloneDX list of all components in target/sbom.json
# make lock       pin the Python packages again in requirements.lock, those of the other extras in requirements-extras.lock
# make format     format all sources
# make docs       write the references, the pages of schemes with pictures, and the printed outputs in the documents again

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Files that are not added yet count too, as a new scheme does; files that were deleted do not.
RUST_FILES = $(wildcard $(shell git ls-files -co --exclude-standard -- '*.rs'))
ENGINE_SOURCES = $(wildcard $(shell git ls-files -co --exclude-standard -- 'crates/*.rs' 'crates/*.toml' 'bpf/*.[ch]' Cargo.toml Cargo.lock pyproject.toml))

# Schemes of ours on the kernel's TCP need clang and the headers of libelf and zlib; all else does without.
HAS_BPF := $(shell command -v clang >/dev/null && $(CC) -E -x c -include gelf.h -include zlib.h /dev/null >/dev/null 2>&1 \
    && uname -s | grep -x Linux)
BPF = $(if $(HAS_BPF),--features narrows-kernel/bpf)

# What the virtual environment holds; the tools for BPF may come or go.
RELEASE := $(VENV)/.release$(if $(HAS_BPF),-bpf)
DEV := $(VENV)/.dev$(if $(HAS_BPF),-bpf)

# The adapter for quinn is a feature that only its users need.
QUINN = --features narrows-quic/quinn

# Short measurements: all parts in less than two minutes.
BENCH_PARTS = --warm-up-time 0.1 --measurement-time 1 --sample-size 10

# Where cargo-deny keeps its database.
ADVISORIES = $(or $(CARGO_HOME),$(HOME)/.cargo)/advisory-dbs

CARGO_TEST = cargo test --quiet --workspace $(BPF) $(QUINN)
PYTEST = $(BIN)/python -m pytest tests/python

.PHONY: redteam audit lock sbom setup dev engine reproduce check test test-long bench bench-parts docs format lint unit \
    laws wasm

setup: $(RELEASE)

dev: $(DEV)

# Either engine serves tests; the faster one is kept while it is current.
engine:
	@$(MAKE) --no-print-directory --question $(RELEASE) 2>/dev/null || $(MAKE) --no-print-directory dev

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "maturin>=1.9,<2"
	$(if $(LOCKED),$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock)
	touch $@

$(RELEASE) $(DEV): $(VENV)/.installed $(ENGINE_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop $(if $(filter $@,$(RELEASE)),--release) --quiet --extras dev \
	    $(BPF:narrows-kernel/bpf=bpf) >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@rm -f $(VENV)/.release* $(VENV)/.dev*
	touch $@

reproduce: setup
	$(BIN)/narrows reproduce $(ARGS)

bench: setup
	$(BIN)/narrows bench $(ARGS)

bench-parts:
	cargo bench --quiet -p narrows-cc -p narrows-net -p narrows-tcp -p narrows-bench -p narrows-quic \
	    --bench schemes --bench elements --bench stream --bench queue --bench acks -- $(BENCH_PARTS) $(ARGS)

docs: setup
	$(BIN)/python docs/generate.py $(ARGS)

format: engine
	@rustfmt --edition 2024 $(RUST_FILES)
	$(BIN)/ruff format --quiet python tests docs studies
	$(BIN)/ruff check --quiet --fix python tests docs studies

lint: engine
	@rustfmt --edition 2024 --check --quiet $(RUST_FILES)
	cargo clippy --quiet --workspace --all-targets $(BPF) $(QUINN) -- -D warnings
	cargo build --quiet --manifest-path crates/cc/bare/Cargo.toml
	$(BIN)/ruff format --quiet --check python tests docs studies
	$(BIN)/ruff check --quiet python tests docs studies
	$(BIN)/mypy python/narrows

unit:
	$(CARGO_TEST) --lib --tests -- --skip law_

check: lint unit
	$(PYTEST) -n 2 -m "not slow and not long and not realtime"

laws:
	$(CARGO_TEST) --lib --tests -- law_

redteam: setup
	$(BIN)/python tests/redteam.py $(ARGS)

# Checks licences, sources and advisories as far as cargo-deny, its database and pip-audit are at hand; what one of them
# finds is an error, and so is a pip-audit without a network.
audit:
	@if command -v cargo-deny >/dev/null; then cargo deny check bans licenses sources; \
	    else echo "skipped: cargo-deny is not installed"; fi
	@if command -v cargo-deny >/dev/null && ls -d $(ADVISORIES)/*/ >/dev/null 2>&1; \
	    then cargo deny --offline check advisories; \
	    else echo "skipped: there is no database of advisories (cargo deny fetch db)"; fi
	@$(BIN)/python -m pip check
	@if $(BIN)/python -c "import pip_audit" 2>/dev/null; \
	    then $(BIN)/python -m pip_audit -r requirements.lock -r requirements-extras.lock; \
	    else echo "skipped: pip-audit is not installed"; fi

sbom:
	@mkdir -p target
	$(PYTHON) tests/sbom.py >target/sbom.json

# Pins the Python packages with hashes: pip-tools in an environment of its own. What the extras `ray` and `sdn` bring
# lies in a file of its own, which an installation without them does not need.
PIN = target/lock-venv/bin/pip-compile --quiet --allow-unsafe --generate-hashes --strip-extras --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links
lock:
	$(PYTHON) -m venv target/lock-venv
	target/lock-venv/bin/pip install --quiet pip-tools
	$(PYTHON) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); \
	    print(*p['project']['dependencies'], *p['project']['optional-dependencies']['dev'], \
	    *p['build-system']['requires'], sep='\n')" \
	    | $(PIN) --output-file requirements.lock -
	$(PYTHON) -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
	    print(*(text for name, all in extras.items() if name != 'dev' for text in all), sep='\n')" \
	    | $(PIN) --constraint requirements.lock --output-file requirements-extras.lock -

wasm:
	@tests/wasm.sh

# Tests in real time run alone.
test: check laws wasm
	$(CARGO_TEST) --doc
	$(CARGO_TEST) --lib --tests -- --ignored --skip long_ --skip print_
	$(PYTEST) -n 2 -m "slow and not long and not realtime"
	$(PYTEST) -m "realtime and not long"

test-long: engine
	$(CARGO_TEST) --lib --tests -- --ignored long_
	NARROWS_LONG=1 $(PYTEST) -n 2 -m "(long or attempts) and not realtime"
	NARROWS_LONG=1 $(PYTEST) -m "(long or attempts) and realtime"
