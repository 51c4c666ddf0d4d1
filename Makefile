.PHONY: help run test check bench screenshots

help: ## Show what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Run the server on 127.0.0.1:8080, three requests a minute for each key
	go run ./cmd/ratelimitlog serve --limit 3

test: ## Run all tests
	go test ./...

check: ## Run what CI runs: format, vet, wire, tests, race detector, the benchmark's build
	bash .ci/run

bench: ## Measure the server against its baselines (about five minutes; with wrk if it is installed)
	go build -o bin/ratelimitlog ./cmd/ratelimitlog
	cd cmd/bench && go build -o ../../bin/bench .
	bin/bench -server bin/ratelimitlog $(BENCH)

screenshots: ## Make the pictures of the dashboard in docs (with Chromium)
	RATELIMITLOG_SCREENSHOTS=docs go test -count=1 -run TestScreenshots .
