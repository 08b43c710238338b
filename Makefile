# CertHarbor: `make` alone lists what can be made.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

LINT_VERSION := v2.15.0
LINT         := $(CURDIR)/bin/check/golangci-lint-$(LINT_VERSION)

SQLC_VERSION := v1.31.1
SQLC         := $(CURDIR)/bin/check/sqlc-$(SQLC_VERSION)

# Go sources under version control or about to be; nothing under node_modules or data folders.
GOFILES = git ls-files --cached --others --exclude-standard '*.go'

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## make bin/certharbor and bin/certharbor-agent, static binaries
	$(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o bin/ ./cmd/certharbor ./cmd/certharbor-agent

.PHONY: run
run: build ## serve on http://127.0.0.1:8080 with data in ./data
	exec bin/certharbor serve --listen 127.0.0.1:8080 --data ./data

.PHONY: demo
demo: build ## the whole life of a certificate in under a minute, with a real ACME server
	$(GO) build -C tools -trimpath -buildvcs=false -o ../bin/demo/ ./acmeserver ./tlsservice ./webhookreceiver ./demo
	exec bin/demo/demo --bin bin

# The race detector watches our code and every library but the SQLite that was
# translated from C, which takes most of the time of an instrumented test and
# holds none of our variables. The limits of time are there to end what hangs.
TEST = -race -gcflags=modernc.org/...=-race=false -shuffle=on -timeout 45m

.PHONY: test
test: ## install what the tests need, then run all of them: race detector, shuffled, both databases
	@tools/setup-test.sh
	@echo "test: server, agent and their packages"
	$(GO) test $(TEST) ./...
	@echo "test: tools"
	$(GO) test -C tools $(TEST) ./...
	@echo "test: all passed"

.PHONY: check
check: check-format check-vet check-lint check-generated check-modules ## format, vet, lint, generated files, modules
	@echo "check: all passed"

# Without cgo, as the binaries are built, so that vet, lint and the demo compile everything once.
check-vet check-lint check-generated demo build: export CGO_ENABLED = 0

.PHONY: check-format check-vet check-lint check-generated check-modules
check-format:
	@unformatted=$$($(GOFILES) | xargs -r gofmt -l); \
	if [ -n "$$unformatted" ]; then { $(GOFILES) | xargs -r gofmt -d || true; }; echo "check-format: run gofmt -w on the files above" >&2; exit 1; fi
	@echo "check-format: ok"

check-vet:
	$(GO) vet ./...
	$(GO) vet -C tools ./...

check-lint: $(LINT)
	$(LINT) run --allow-parallel-runners ./...
	cd tools && $(LINT) run --allow-parallel-runners --config ../.golangci.yml ./...

# Built from source at a pinned version, which the checksum database vouches for: a minute and a half
# on two cores with nothing cached. Not in tools/go.mod, whose versions are Pebble's.
$(LINT):
	mkdir -p $(@D)
	GOFLAGS= GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv $(@D)/golangci-lint $@

check-generated:
	@tools/check-generated.sh

check-modules:
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) mod -C tools verify
	$(GO) mod -C tools tidy -diff

.PHONY: generate
generate: $(SQLC) ## make generated files anew: queries of every area, api/openapi.json, //go:generate lines
	@for config in internal/*/sqlc.yaml; do $(SQLC) generate -f $$config; done
	$(GO) generate ./...
	@mkdir -p api
	$(GO) run ./cmd/certharbor openapi > api/openapi.json.new && mv api/openapi.json.new api/openapi.json

# Like the linter: pinned, from source, about a minute on two cores with nothing cached.
$(SQLC):
	mkdir -p $(@D)
	GOFLAGS= CGO_ENABLED=0 GOBIN=$(@D) $(GO) install github.com/sqlc-dev/sqlc/cmd/sqlc@$(SQLC_VERSION)
	mv $(@D)/sqlc $@

.PHONY: bench
bench: ## measure against bare limits in the same run and print ratios
	$(GO) test -run '^$$' -bench . -benchtime 2s -timeout 20m -v ./bench/...
