# The targets that developers expect. `make help` lists them.

GO   ?= go
TOOL  = $(GO) tool -modfile=$(CURDIR)/tools/go.mod
# The repository has eight modules: this one; belfrytest, so that programs which only import the client record no checksums
# of a node's modules; the bench, whose drivers of other services are no dependencies of Belfry; and for the same reason
# the issuer of tokens, the collector of spans and the libraries asynq and River for tests, and the checks of the packages, with Helm and
# Kubernetes.

.DEFAULT_GOAL := build

.PHONY: build
build: ## build bin/belfry
	$(GO) build -o bin/ ./cmd/belfry

.PHONY: test
test: ## run all tests
	for module in . belfrytest bench; do $(GO) test -C $$module ./... || exit; done

.PHONY: race
race: ## run the tests under the race detector, on one processor each (golang/go issue 78156)
	for module in . belfrytest bench; do $(GO) test -C $$module -race -cpu 1 ./... || exit; done

.PHONY: lint
lint: ## vet, golangci-lint with staticcheck and the import rules
	for module in . belfrytest bench access/oidc/realissuer imports/redis/realasynq imports/tables/realriver redisapi/realclients/go deploy/package; do (cd $$module && $(GO) vet ./... && $(TOOL) golangci-lint run) || exit; done

.PHONY: generate
generate: ## generate code from the .proto files
	.ci/generate

.PHONY: profile
profile: ## take the profile by which releases are compiled, on an idle machine
	.ci/profile

.PHONY: tzdata
tzdata: ## embed the time zones of the installed Go, with their version
	cp $$($(GO) env GOROOT)/lib/time/zoneinfo.zip repeat/zone/
	{ sed -n 's/^DATA=//p' $$($(GO) env GOROOT)/lib/time/update.bash; sha256sum < repeat/zone/zoneinfo.zip | cut -d' ' -f1; } \
		> repeat/zone/version.txt

.PHONY: demo
demo: ## watch a cluster lose its leader without losing a task
	$(GO) run ./cmd/belfry demo

.PHONY: chaos
chaos: ## break a cluster of real processes and judge it
	BELFRY_TESTS=real,timed $(GO) test -count=1 -v -timeout 20m ./chaos/... ./delivery/e2e

.PHONY: long
long: ## run the tests RUN in their long forms, of minutes or hours: make long RUN=TestShardsSplitUnderLoad
	.ci/long "$(RUN)"

.PHONY: siege
siege: ## lay siege to a cluster for ten minutes, with all faults that this machine allows
	$(GO) run ./chaos/cmd/siege --for 10m

.PHONY: siege-page
siege-page: ## write docs/measurements/siege.md anew, as root: a siege of ten minutes in which each invariant is exercised
	$(GO) build -o bin/ ./chaos/cmd/siege && d=$$(mktemp -d) && { bin/siege --for 10m --seed 7 --dir "$$d"; \
		cp "$$d/report.md" docs/measurements/siege.md; }

.PHONY: flaws
flaws: ## seed mistakes into nodes, and see each of them found
	.ci/run flaws

.PHONY: chaos-root
chaos-root: ## the fault tests that need root: networks and disks that break
	.ci/chaos-root

.PHONY: upgrade
upgrade: ## change the nodes between this build and the one with the next command version
	.ci/run upgrade

.PHONY: passes
passes: ## print the functions that a PUT, a cancel and a fire pass, by package
	BELFRY_TESTS=real $(GO) test -count=1 -v ./node/nodetest/passes

.PHONY: test-interop
test-interop: ## check deliveries against libraries of another language
	.ci/interop -v

.PHONY: test-docs
test-docs: ## run the commands of README.md and docs/*.md, and compare what they print
	.ci/docs

.PHONY: reference
reference: ## write docs/reference anew: the API from openapi.yaml, the metrics from a running node, the commands
	BELFRY_REFERENCE=write $(GO) test -count=1 -run 'TestAPI$$|TestMetricsReference' ./docs/reference ./node
	$(GO) run ./cmd/belfry man --markdown > docs/reference/command-line.md.new
	mv docs/reference/command-line.md.new docs/reference/command-line.md

.PHONY: arrows
arrows: ## write docs/reference/arrows.txt anew: the imports of all packages; the commit says why each new one is needed
	BELFRY_REFERENCE=write $(GO) test -count=1 -run 'TestArrows$$' ./docs/reference

.PHONY: site
site: ## build the pages as a static site into bin/site
	.ci/site build

.PHONY: site-look
site-look: ## serve the pages on loopback, and show each change at once
	.ci/site look

.PHONY: site-all
site-all: ## check the site as the gate does, with Lighthouse on every page, and list the links that lead outside
	SITE_ALL=1 .ci/site

.PHONY: test-typescript
test-typescript: ## check the examples of the pages with the types that openapi-typescript generates
	.ci/typescript -v

.PHONY: clients
clients: ## lint and test the clients of other languages, play the conformance cases, and write their table
	.ci/clients write

.PHONY: dashboard-scale
dashboard-scale: ## time the pages of the dashboard with TASKS tasks behind them (10000000 take minutes and 12 GB)
	npm ci --prefix web --ignore-scripts --no-audit --no-fund
	$(GO) build -o bin/belfry ./cmd/belfry
	BELFRY=$(CURDIR)/bin/belfry TASKS=$(or $(TASKS),10000000) node --test --test-reporter=spec --test-timeout=3600000 web/test/scale/*.test.mjs

.PHONY: observe
observe: ## see alerts fire in a real Prometheus while nodes are killed, and spans arrive at a real collector
	.ci/observe
	.ci/collector

.PHONY: dashboard
dashboard: ## build the dashboard into web/dist
	npm ci --prefix web --ignore-scripts --no-audit --no-fund && node web/build.mjs

.PHONY: web
web: ## compare web/dist with its sources, and test the dashboard in a real browser, in all views
	WEB_ALL=1 .ci/web

.PHONY: pictures
pictures: ## take the docs' screenshot of the dashboard anew, by the test of a busy cluster
	npm ci --prefix web --ignore-scripts --no-audit --no-fund
	$(GO) build -o bin/belfry ./cmd/belfry
	command -v pngquant >/dev/null || .ci/apt pngquant
	BELFRY=$(CURDIR)/bin/belfry BELFRY_SCREENSHOTS=$(CURDIR)/docs/pictures node --test --test-reporter=spec web/test/browser/busy.test.mjs
	pngquant --quality 80-98 --speed 1 --strip --force --output docs/pictures/dashboard.png docs/pictures/dashboard.png

.PHONY: recording
recording: ## record the demo into docs/pictures/demo.svg, on an idle machine
	$(GO) build -o bin/belfry ./cmd/belfry
	node docs/pictures/demo.mjs bin/belfry

.PHONY: test-brokers
test-brokers: ## publish to real brokers, killed meanwhile, and try the bench's peers (installs what is missing)
	.ci/brokers

.PHONY: test-imports
test-imports: ## import from real servers: Redis, RabbitMQ, PostgreSQL, MariaDB, with the libraries (installs what is missing)
	.ci/imports

.PHONY: test-relay
test-relay: ## relay the rows of a real PostgreSQL and MariaDB, killed meanwhile (installs what is missing)
	.ci/relay
.PHONY: test-amqp
test-amqp: ## run clients of four languages against the intake for AMQP before a real RabbitMQ (installs what is missing)
	.ci/amqp

.PHONY: test-redis
test-redis: ## compare the port for Redis clients with a real Redis, and try the libraries (installs what is missing)
	.ci/redis

.PHONY: test-buckets
test-buckets: ## write backups to a real S3 server (builds it)
	.ci/buckets

.PHONY: test-oidc
test-oidc: ## judge the tokens of a real OpenID Connect issuer (builds it)
	.ci/oidc

.PHONY: packages
packages: ## build and install the deb and the rpm, judge the unit, and run nodes as the chart and compose do, as root
	.ci/packages

.PHONY: manifests
manifests: ## render the chart into the plain manifests of deploy/kubernetes
	$(GO) run -C deploy/package ./cmd/manifests ../helm/belfry ../kubernetes/belfry.yaml

.PHONY: bench-peers
bench-peers: ## install what the bench compares with, and name what is there
	.ci/servers beanstalkd etcd nats postgresql rabbitmq redis

.PHONY: fuzz
fuzz: ## fuzz every target for long, into a cache outside the repository
	.ci/fuzz 1000000

.PHONY: bench
bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./... && $(GO) test -C bench -run '^$$' -bench . -benchmem ./...

.PHONY: benchstat
benchstat: ## compare the benchmarks with those of BASE, a commit; BENCH is a pattern, PKG are folders
	.ci/benchstat "$(or $(BASE),HEAD)" "$(or $(BENCH),.)" $(PKG)

.PHONY: bench-compare
bench-compare: ## measure Belfry and its peers side by side, into bench/
	$(GO) run -C bench ./cmd/bench --out .

.PHONY: ci
ci: ## everything that must hold before a change is taken
	.ci/run

.PHONY: nightly
nightly: ## every check: the gate's, and those that take hours, in their long forms
	.ci/nightly

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'
