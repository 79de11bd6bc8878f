# Works with GNU make 3.81 (macOS) and newer.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The modules of this repository: the root and what has a go.mod of its own.
MODULES := . $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path '*/testdata/*'))

# Tools have a module of their own, so that users do not inherit what they need.
GOLANGCI = go tool -modfile="$(CURDIR)/tools/go.mod" golangci-lint
REPORT = go run -C tools ./testreport

# How long each fuzz target runs.
FUZZTIME ?= 5s

.PHONY: help demo test lint fuzz bench generate

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: ## Run 10000 payments with the lock and again without (ARGS="-serve" to try it by hand)
	go run ./examples/orders $(ARGS)

test: ## Run all tests with the race detector; installs redis-server when it is missing
	bash scripts/ensure.sh cc redis-server
	$(REPORT) "$(CURDIR)" -race -shuffle=on -timeout 10m $(TESTFLAGS) ./...
	@set -e; for m in $(filter-out .,$(MODULES)); do \
		echo "$(REPORT) \"$(CURDIR)/$$m\" -short"; \
		$(REPORT) "$(CURDIR)/$$m" -race -shuffle=on -timeout 10m -short $(TESTFLAGS) ./...; \
	done

lint: ## Check format, generated code, vet and golangci-lint
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go run -C tools ./protogen -check "$(CURDIR)"
	@set -e; for m in $(MODULES); do \
		echo "lint $$m"; \
		(cd $$m && go vet ./... && $(GOLANGCI) run --allow-parallel-runners ./...); \
	done

fuzz: ## Run each fuzz target for FUZZTIME (5s)
	bash scripts/fuzz.sh $(FUZZTIME)

bench: ## Measure all libraries side by side and write bench/results (ARGS="-quick" takes a minute)
	bash scripts/ensure.sh redis-server
	go run -C bench . $(ARGS)

generate: ## Write the Go code of the .proto files
	go run -C tools ./protogen "$(CURDIR)"
