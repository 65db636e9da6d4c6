# leasehold: `make` lists the targets. Everything that is brought or built outside `target/` lies in $(LEASEHOLD_CACHE).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

export LEASEHOLD_CACHE ?= $(HOME)/.cache/leasehold
# Where the playground of `make playground` and `make demo` lies.
PLAYGROUND_DIR ?= $(LEASEHOLD_CACHE)/run/playground
# What `make test` runs: rules api unit life cluster node; all of them when empty.
LEVELS ?=
# The cards of a node of `make playground`.
CARDS ?= rtx4090:4

# Recipes that use what `make setup` brought start with this.
with_setup := eval "$$(tests/setup/env)";
need = [ -x "$${$(1):-}" ] || { echo "$(2) is missing; run: make setup" >&2; exit 1; };
# As in an image: optimised, with everything in it.
static = RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile operator --target x86_64-unknown-linux-gnu --locked
bin = "$${CARGO_TARGET_DIR:-target}/debug/$(1)"

##@ Daily

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo

.PHONY: setup
setup: ## bring everything missing into the cache; changes nothing in the system (SYSTEM=1: may apt-get install)
	@tests/setup/all

.PHONY: test
test: setup ## all tests, cheap levels first (LEVELS="rules api unit life cluster node")
	@tests/setup/test $(LEVELS)

.PHONY: soak
soak: setup ## the large sizes of the life tests, optimised (SEEDS=2000: so many random weeks)
	@$(with_setup) export LEASEHOLD_SIZE=soak $${SEEDS:+LEASEHOLD_SEEDS=$$SEEDS}; \
	cargo test --profile soak -p leasehold-tests --test life --locked

# Each of its copies has a build folder of its own: in a common one cargo would not tell them apart.
.PHONY: mutants
mutants: ## change the rules of time, money and leases one by one: which change does no test see?
	@$(with_setup) tools=$$(tests/setup/mutants); \
	output=$${CARGO_TARGET_DIR:-target}; mkdir -p "$$output"; \
	PATH="$$tools/bin:$$PATH" env -u CARGO_TARGET_DIR cargo mutants --package leasehold-core --output "$$output" --jobs 2

# Where its figures are kept: a part that is not measured anew keeps its own.
BENCH_JSON ?= $(LEASEHOLD_CACHE)/bench/speed.json
.PHONY: bench
bench: setup ## speed and cost beside the Job controller and Kueue, into docs/speed.md; takes the whole machine (BENCH="--help": options; KUEUE=no)
	@[ "$${KUEUE:-}" = no ] || export LEASEHOLD_KUEUE=$$(tests/setup/kueue); \
	$(with_setup) \
	[ "$${KUEUE:-}" != no ] || unset LEASEHOLD_KUEUE; \
	$(static) -p leasehold; \
	export LEASEHOLD_OPERATOR="$${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/operator/leasehold"; \
	$(subst cargo build,cargo bench,$(static)) -p leasehold-tests --bench speed -- --json "$(BENCH_JSON)" --page $(CURDIR)/docs/speed.md $(BENCH)

.PHONY: check
check: fmt go lint test docs deny generated ## everything that CI checks

.PHONY: generate
generate: ## write CRDs, API reference and what the chart copies from them
	@$(with_setup) cargo build --workspace --bins --locked && $(call bin,generate)

.PHONY: clean
clean: playground-down ## stop the playground and remove what was built
	rm -rf target

##@ Try it

.PHONY: demo
demo: context setup ground ## a tour on a local control plane (KEEP=1: leaves it up; CONTEXT=NAME: on that cluster)
	@$(with_setup) $(call bin,demo) --directory $(PLAYGROUND_DIR)

.PHONY: playground
playground: setup ground ## start a control plane, as root with a real node; prints what a shell needs to use it
	@$(with_setup) $(call bin,demo) playground --directory $(PLAYGROUND_DIR) --cards $(CARDS)

.PHONY: playground-down
playground-down: ## take it down and make sure that nothing is left
	@if [ -d $(PLAYGROUND_DIR) ]; then \
	  $(with_setup) $(call need,LEASEHOLD_PLAYGROUND,the playground) \
	  "$$LEASEHOLD_PLAYGROUND" down --dir $(PLAYGROUND_DIR); \
	  "$$LEASEHOLD_PLAYGROUND" leftovers --dir $(PLAYGROUND_DIR); \
	  rm -rf $(PLAYGROUND_DIR) $(PLAYGROUND_DIR).up.log; \
	fi

# Looked at before anything is brought or built: a wrong name should not cost minutes.
.PHONY: context
context:
	@[ -z "$${CONTEXT:-}" ] || tests/setup/context "$$CONTEXT"

# What a demo and a playground run: the operator, and on a real node the agent's image.
.PHONY: ground
ground:
	@$(with_setup) cargo build --workspace --bins --locked; \
	[ -n "$$(tests/setup/real-node)" ] || $(MAKE) --no-print-directory agent

##@ Steps of check

.PHONY: fmt
fmt: ## Rust sources are formatted
	@cargo fmt --all -- --check

.PHONY: go
go: ## Go sources are formatted, pass vet and their tests
	@# Once is enough: vet of a test looks at all of Kubernetes again.
	@cd tests/playground; \
	unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w: $$unformatted" >&2; exit 1; }; \
	CGO_ENABLED=0 GOFLAGS=-trimpath GOTOOLCHAIN=local go vet ./...; \
	CGO_ENABLED=0 GOFLAGS=-trimpath GOTOOLCHAIN=local go test -vet=off ./...

.PHONY: lint
lint: ## clippy, no warnings
	@$(with_setup) cargo clippy --workspace --all-targets --locked -- -D warnings

.PHONY: docs
docs: ## Rust documentation builds without warnings
	@$(with_setup) RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

.PHONY: deny
deny: ## licences, banned crates, sources
	@$(with_setup) . tests/setup/lib; \
	if [ -x "$${LEASEHOLD_CARGO_DENY:-}" ]; then \
	  "$$LEASEHOLD_CARGO_DENY" --workspace --locked check bans licenses sources; \
	else \
	  skip deny "there is no cargo-deny; run make setup"; \
	fi

generated_files := crds/generated docs/settings.schema.json
.PHONY: generated
generated: ## generated files are what `make generate` writes
	@state() { find $(generated_files) -type f -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0r sha256sum || true; }; \
	before=$$(state); \
	$(MAKE) --no-print-directory generate; \
	if [ "$$before" != "$$(state)" ]; then \
	  git --no-pager diff --stat -- $(generated_files); \
	  echo "generated files were out of date; they are written now, commit them" >&2; \
	  exit 1; \
	fi; \
	if [ "$${CI:-}" = true ]; then git --no-pager diff --exit-code -- $(generated_files); fi

.PHONY: agent
agent: ## the static agent and its image
	@$(with_setup) RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile agent --target x86_64-unknown-linux-gnu -p leasehold-agent --locked; \
	tests/setup/program-image agent "$${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/agent/leasehold-agent" >/dev/null

.PHONY: operator
operator: ## the static operator and its image
	@$(with_setup) $(static) -p leasehold; \
	tests/setup/program-image operator "$${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/operator/leasehold" >/dev/null
