# Works with GNU make 3.81 (macOS) and newer.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The modules of this repository: the root and what has a go.mod of its own.
MODULES := . $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path '*/testdata/*'))

# Tools have a module of their own, so that users do not inherit what they need.
# Asked for its path once, since go tool -modfile refuses a module with a go.work beside it.
GOLANGCI = $$(GOWORK=off go tool -modfile="$(CURDIR)/tools/go.mod" -n golangci-lint)
REPORT = go run -C "$(CURDIR)/tools" ./testreport

# What one core does not keep busy: most of the tests wait for a Redis, or for
# the end of a TTL. Those that measure time or count goroutines run alone.
TESTS = -parallel 4

# make check tests the root module, or those that MODULES names. It leaves out the packages that repeat the
# proof, the benchmarks or the fuzz seeds of five frameworks, that install a release, run programs (also
# the go command), or want a Prometheus, a browser, databases or other shells: make test has them.
CHECKED = $(if $(filter command,$(origin MODULES)),$(MODULES),.)
LONG = /bench$$|/dashboards$$|/browsertest$$|/fence/dbtest$$|/proof/(checks|combos|jobs|matrix|rivals)$$|/tools/release$$|/check/urls$$|/lockgen$$|/lockctl/shells$$|/kit/examples/

# What the completion of lockctl is tried in; the test wants a terminal of Linux.
SHELLS = $(if $(filter Linux,$(shell uname)),bash-completion zsh fish)

# The packages that take longest start first, or the others would be done long before, and so do the
# modules.
FIRST = ./lockmw ./internal/redisstore ./connectlock ./internal/quorum ./grpclock ./locktest ./internal/redisstore/wire ./lockadmin
# What has no goroutines of its own, such as the generator and what reads the documents, runs without the race
# detector, which makes it many times slower: PLAIN of the root module, and the modules PLAIN_MODULES.
PLAIN = /internal/check/|/lockgen$$
PLAIN_MODULES = tools cmd/lockvet
FIRST_IN_PROOF = ./matrix ./checks
LONGEST = examples/recipes fence/dbtest tools cmd/lockctl dashboards lockadmin/browsertest examples/orders
OTHERS = $(LONGEST) $(filter-out . proof $(LONGEST),$(MODULES))

# More packages run at a time than the two cores of a small machine, for they wait a lot: four of the root, then
# three of the proof, then one of each of four modules. vet is make check's and make lint's. The model's larger sizes are
# looked at without the race detector, which makes them many times slower.
TEST = -race $(TEST_PLAIN)
TEST_PLAIN = -shuffle=on -vet=off -timeout 20m $(TESTFLAGS)

# What make lint looks at, in each of MODULES.
PACKAGES ?= ./...

GOVULNCHECK = v1.9.0

# How long each fuzz target runs.
FUZZTIME ?= 5s

# How long the soak lasts.
D ?= 30m

# Notes what the figures of a run depend on, runs what follows, and writes
# proof/REPORT.md and the table of docs/proof.md, also when a goal was not met. PROOF_SEED replays a run.
NOTE = cd proof && go run ./report -note

.PHONY: help demo check budgets test doors recipes board lint vuln tidy fuzz bench proof combos soak model sim proof-rivals mutants generate

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: ## Run 10000 payments with the lock and again without (ARGS="-serve": shops, customers, a console and metrics, to look at)
	go run -C examples/orders . $(ARGS)

# What is built does not depend on the folder, so a second clone builds little. What
# a change does not touch is not tested again: the order is fixed, so results are kept.
# Nothing of ours is inlined, which compiles in two thirds of the time: after a change in the engine
# most of a check is building tests.
check: export GOFLAGS += -trimpath -gcflags=github.com/lockmw/kit/...=-l
check: ## Check format, vet, generated code and the quick tests of what has changed in the root module, but for examples, lockgen and check/urls, without the race detector; MODULES="lockprom cmd/lockctl" for others, RACE=-race
	bash scripts/ensure.sh cc redis-server
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go run -C tools ./protogen -check "$(CURDIR)"
	@set -e; for m in $(CHECKED); do echo "go vet: $$m"; go -C $$m vet ./...; done
	@set -e; runs=(); for m in $(CHECKED); do \
		first=; if [ $$m = . ]; then first="$(FIRST)"; fi; \
		all=$$(go -C $$m list ./...); packages=$$(grep -vE '$(LONG)' <<<"$$all" || true); \
		if [ -n "$$packages" ]; then runs+=(-- "$(CURDIR)/$$m" $(RACE) -vet=off -p 4 $(TESTS) -timeout 3m $(TESTFLAGS) $$first $$packages); fi; \
	done; \
	if [ $${#runs[@]} = 0 ]; then echo "no quick tests in $(CHECKED): make test has them"; else $(REPORT) -quick "$${runs[@]}"; fi

budgets: ## Hold allocations and the time of ten thousand locks to their bounds, in code as users build it: inlined, and without the race detector
	bash scripts/ensure.sh cc redis-server
	$(REPORT) -each "$(CURDIR)" -count=1 -p 1 -run 'Allocations|AllocatesNothing' ./lockmw ./keyfunc ./httplock ./ginlock ./internal/lockgen ./internal/recent \
		-- "$(CURDIR)/lockprom" -count=1 -run Allocations . -- "$(CURDIR)/lockotel" -count=1 -run Allocations . -- "$(CURDIR)/cmd/lockctl" -count=1 -run TestManyLocks .

test: export GOFLAGS += -trimpath
test: ## Run all tests, those of code with goroutines with the race detector; installs redis-server, Prometheus, Chromium, PostgreSQL, MariaDB and shells when they are missing
	bash scripts/ensure.sh cc redis-server prometheus chromium postgres mariadb $(SHELLS)
	set -e; all=$$(go list ./...); plain=$$(grep -E '$(PLAIN)' <<<"$$all"); raced=$$(grep -vE '$(PLAIN)' <<<"$$all"); \
	$(REPORT) -alone 2 -beside 4 "$(CURDIR)" $(TEST) -p 4 $(TESTS) $(FIRST) $$raced \
		-- "$(CURDIR)/proof" $(TEST) -short -p 3 $(FIRST_IN_PROOF) ./... \
		-- "$(CURDIR)" $(TEST_PLAIN) -p 1 $$plain \
		-- "$(CURDIR)/proof" $(TEST_PLAIN) -short ./model \
		$(foreach m,$(OTHERS),-- "$(CURDIR)/$(m)" $(if $(filter $(PLAIN_MODULES),$(m)),$(TEST_PLAIN),$(TEST)) -short -p 1 ./...)

doors: ## Break the door of connectlock in each protocol (a minute or two); make test does so in the first alone
	bash scripts/ensure.sh cc redis-server
	BREAK_ALL_DOORS=1 $(REPORT) -each "$(CURDIR)" $(TEST) $(TESTS) -count=1 -run TestBrokenDoorIsNoticed ./connectlock

recipes: ## Do what docs/recipes.md says with every recipe, copied into a new module: programs in three processes, services and their curl lines; make test does so with three of them
	bash scripts/ensure.sh redis-server postgres
	$(REPORT) "$(CURDIR)/examples/recipes" -count=1 -timeout 10m .

board: ## See the board and the alerts of dashboards/ at work with a real Prometheus that scrapes the demo, for a minute or two
	bash scripts/ensure.sh redis-server prometheus
	$(REPORT) "$(CURDIR)/dashboards" -count=1 -v -timeout 10m ./...

lint: ## Check format, generated code, vet, golangci-lint and lockvet
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go run -C tools ./protogen -check "$(CURDIR)"
	go run ./cmd/lockgen -check ./...
	@set -e; golangci=$(GOLANGCI); for m in $(MODULES); do \
		echo "lint $$m"; \
		(cd $$m && go vet $(PACKAGES) && "$$golangci" run --allow-parallel-runners $(PACKAGES)) || exit 1; \
	done
	bash scripts/lockvet.sh "$(PACKAGES)" $(MODULES)

vuln: ## Look for known vulnerabilities in what the modules use, with govulncheck (VULNDB=file:///… for a database of your own)
	VULNDB="$(VULNDB)" bash scripts/vuln.sh $(GOVULNCHECK) $(MODULES)

tidy: ## Bring go.mod and go.sum of all modules up to date
	bash scripts/tidy.sh

fuzz: ## Run each fuzz target for FUZZTIME (5s)
	bash scripts/fuzz.sh $(FUZZTIME)

proof: ## Run all checks and the whole fault matrix (an hour) and write proof/REPORT.md
	bash scripts/ensure.sh cc redis-server postgres
	$(NOTE) proof go test -count=1 -p 1 -timeout 90m -skip TestSoak ./checks ./matrix ./jobs

combos: ## Cross faults with clients, loads, policies and REDIS_SERVERS at random (10 to 45 minutes) and write proof/REPORT.md
	bash scripts/ensure.sh cc redis-server
	$(NOTE) combos $(REPORT) -each "$(CURDIR)/proof" -count=1 -timeout 90m -run TestCombinations ./combos

soak: ## Inject faults at random for D (30m) and write proof/REPORT.md
	bash scripts/ensure.sh cc redis-server
	export PROOF_SOAK=$(D); $(NOTE) soak $(REPORT) -each "$(CURDIR)/proof" -count=1 -timeout 0 -run TestSoak ./matrix

model: ## Look at all states of the lock protocol, for a few processes and calls, and for all mistakes on purpose (about an hour): docs/model.md
	go run -C proof ./model/explore $(ARGS)
	$(REPORT) -each "$(CURDIR)/proof" -count=1 -run 'Properties|Mistakes|Versions' ./model

sim: ## Let the engine work in virtual time with faults from seeds, for FOR (1h); SEED=7 repeats one, and makes it smaller if it fails: docs/model.md
	SIM_FOR=$(if $(SEED),,$(or $(FOR),1h)) SIM_SEED=$(SEED) SIM_FROM=$(FROM) SIM_FAILFAST=$(FAILFAST) $(REPORT) -each "$(CURDIR)/proof" -count=1 -timeout 0 -v -run TestSimulate ./sim

proof-rivals: ## Run the same faults with other libraries and write proof/REPORT.md
	bash scripts/ensure.sh cc redis-server
	$(NOTE) rivals go test -count=1 -timeout 90m ./rivals

mutants: ## Put mistakes into the code and see that the checks find them; write proof/REPORT.md
	bash scripts/ensure.sh cc redis-server
	$(NOTE) mutants go run ./mutants -o results/mutants.json

bench: ## Measure all libraries side by side and write bench/results (ARGS="-quick" takes a minute)
	bash scripts/ensure.sh redis-server
	go run -C bench . $(ARGS)

generate: ## Write the Go code of the .proto files, and the decorators of the directives
	go run -C tools ./protogen "$(CURDIR)"
	go run ./cmd/lockgen ./...
