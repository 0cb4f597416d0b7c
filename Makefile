# What each target does is printed by `make help`.
SHELL := /bin/bash
.DELETE_ON_ERROR:

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# What clones share: tools, clusters, environments, passes of suites (hack/cache).
export MUSTER_TEST_CACHE := $(shell hack/cache)
export MUSTER_TEST_CACHE_CHOSEN := $(MUSTER_TEST_CACHE)
GO_VERSION := $(shell go env GOVERSION)
TOOLS    := $(MUSTER_TEST_CACHE)/tools
GOLANGCI := $(TOOLS)/golangci-lint-v2.15.0-$(GO_VERSION)
CONTROLLER_GEN := $(TOOLS)/controller-gen-v0.23.0-$(GO_VERSION)
GOTESTSUM := $(TOOLS)/gotestsum-v1.13.0-$(GO_VERSION)

# Programs and test binaries hold no path of this machine, so that Go's cache serves all clones.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

# NVML needs cgo; without a C compiler Muster reads nvidia-smi instead.
ifneq ($(shell command -v gcc 2>/dev/null),)
  export CGO_ENABLED := 1
  TAGS := nvml
  RACE := -race
else
  export CGO_ENABLED := 0
  TAGS :=
  RACE :=
endif

# Everything that does not link the API server: builds and tests in seconds.
UNIT = $(shell go list ./... 2>/dev/null | grep -v -E '/internal/(controlplane|cli/up)$$|/cmd/muster$$')

.PHONY: help build shim test test-two-at-a-time test-unit test-exhaustive test-mounts test-race test-embedded test-e2e test-long lint verify generate bench bench-scheduler chaos quickstart clean test-deps test-images test-cluster test-kubernetes test-kubernetes-plugin test-kubernetes-agent test-kubernetes-chaos test-conformance test-chaos test-autoscaler bench-cluster bench-data chaos-cluster cluster-deps clients-deps test-clients test-python test-gpu dist test-dist tested test-all test-times test-clients-latest test-browser browser-deps fuzz vulnerabilities
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: shim ## bin/muster, with its shim inside
	@hack/build "$(TAGS)" "$(VERSION)"

# bin/muster with a version that is the same for every commit: a suite that passed with it
# need not run again for a commit that changes no program.
tested: VERSION = tested
tested: shim
	@GOFLAGS="$(GOFLAGS) -buildvcs=false" hack/build "$(TAGS)" "$(VERSION)"

# Go's cache decides what is compiled: a source may be older than the program made of it.
SHIM_BIN := internal/node/shim/bin
shim: $(SHIM_BIN)/muster-shim $(SHIM_BIN)/muster-worker
$(SHIM_BIN)/muster-shim: ALWAYS # static: it is the first process of every container
	@hack/static "$@" ./cmd/muster-shim
$(SHIM_BIN)/muster-worker: ALWAYS # static: it runs in images
	@hack/static "$@" ./cmd/muster-worker
ALWAYS:
.PHONY: ALWAYS

quickstart: build ## build, start Muster in the background, run distributed TensorFlow
	@hack/quickstart

SUITE = go run ./hack/suite -gotestsum "$(GOTESTSUM)"
# All clusters and file systems are ended after this time.
HEAVY = $(SUITE) -heavy

# What only computes has what the others leave of the processors; lint beside it with CI.
BESIDE ?= test-exhaustive
test: test-unit ## the tests that every change must pass; needs root
	@hack/beside "$(BESIDE)" test-two-at-a-time test-e2e

# The suites that leave half of two processors idle run two at a time. Each line of output begins
# with the name of its suite. Beside the end-to-end suite the processors are short, and tests with
# deadlines fail.
test-two-at-a-time:
	@MUSTER_TEST_LABEL=1 $(MAKE) --no-print-directory --keep-going --jobs=2 test-kubernetes-agent test-kubernetes-plugin test-embedded test-kubernetes-chaos test-images test-mounts test-python test-clients test-browser

test-unit: shim $(GOTESTSUM) ## unit tests; no API server
	@$(SUITE) -short -skip '^TestEveryGuardIsNeeded$$' unit $(UNIT)

test-exhaustive: $(GOTESTSUM) ## each write fails in each way, each order of events of the fencing protocol, a million files: minutes
	@$(SUITE) -timeout 60m -run '^TestEvery' exhaustive ./internal/controller/... ./internal/fencing ./internal/data

fuzz: shim ## every fuzz target for FUZZTIME (20s), and the input of a failure
	@hack/fuzz

vulnerabilities: ## known vulnerabilities that the programs call; needs https://vuln.go.dev or GOVULNDB
	@hack/vulnerabilities "$(TAGS)"

test-mounts: tested test-deps $(GOTESTSUM) ## FUSE mounts of datasets, also when their servers are killed, and durable writes when power fails at each change; needs /dev/fuse, and root or fusermount3
	@$(HEAVY) -alone -tags fuse -timeout 5m mounts ./internal/data/mount/... ./internal/agent/datavolume
	@$(HEAVY) -alone -tags fuse -timeout 5m -run '^TestPower' power ./internal/osfile ./internal/data ./internal/data/backend ./internal/data/ref ./internal/door/shelf ./internal/environment/... ./internal/node/shim/supervise
	@$(HEAVY) -tags e2e,fuse -timeout 10m -run '^TestLazy' mounts-e2e ./test/e2e

test-race: shim $(GOTESTSUM) ## the unit tests under the race detector: minutes
	@GOFLAGS="$(GOFLAGS) $(RACE)" $(SUITE) -timeout 30m race $(UNIT)

test-embedded: tested $(GOTESTSUM) ## tests with the kube-apiserver and etcd of bin/muster
	@$(SUITE) -tags embedded embedded ./internal/controlplane ./internal/snapshot ./internal/dataset ./internal/gateway/registry ./internal/pachyderm ./internal/manager ./internal/cli/queue ./internal/cli/data ./internal/cli/pause ./internal/cli/serve ./internal/cli/node ./internal/cli/install ./internal/cli/user ./internal/cli/doctor ./internal/cli/why ./internal/cli/website
	@$(SUITE) -tags embedded -run '^TestRefusedPodsAreNoStorm$$' embedded-node ./internal/node

E2E_SHARDS ?= 2
test-e2e: tested test-deps $(GOTESTSUM) ## end-to-end tests of the commands: muster up, TensorFlow, PyTorch, kubectl
	@$(HEAVY) -tags e2e -timeout 50m -shards $(E2E_SHARDS) -input docs/backup.md -input docs/tutorials -skip '^TestSpark(Endings)?$$' e2e ./test/e2e/...

test-long: tested test-deps cluster-deps $(GOTESTSUM) ## the slowest tests, some of which make test runs in part; needs root
	@MUSTER_TEST_LONG=1 $(SUITE) -timeout 40m -run '^TestEveryWriteMayFail$$' long-exhaustive ./internal/controller/pipeline
	@MUSTER_TEST_LONG=1 $(HEAVY) -tags e2e,cluster -timeout 50m -run '^(TestTensorFlow|TestTensorFlowSurvives.*|TestPipelineOfImages|TestSpark|TestSparkEndings|TestSparkInImages|TestASaveCounts.*|TestDeletingWhile.*|TestPackagesOnTopOfImages|TestManySubmits|TestFirstHour)$$' long ./test/e2e

test-python: tested $(GOTESTSUM) ## the Python package: mypy, and tests with a Muster of their own
	@$(HEAVY) -input python -command hack/test-python python

test-images: tested test-deps cluster-deps $(GOTESTSUM) ## images on one machine, with a real containerd; needs root
	@$(HEAVY) -alone -tags cluster -timeout 10m -run 'Image|Pull|Containerd' images-node ./internal/node ./internal/node/image
	@$(HEAVY) -tags e2e,cluster -timeout 15m -run '^(TestImages|TestStagesInImages)$$' images-e2e ./test/e2e

test-cluster: cluster-deps $(GOTESTSUM) tested ## a real Kubernetes on this machine: kubelets, containerd, simulated GPUs; needs root
	@$(HEAVY) -tags cluster -timeout 20m cluster ./test/cluster/... ./benchmarks/cluster

test-kubernetes: test-kubernetes-plugin test-kubernetes-agent test-kubernetes-chaos ## the conformance and chaos tests that every change must pass, on a real Kubernetes; needs root
test-kubernetes-plugin: tested test-deps cluster-deps $(GOTESTSUM)
	@MUSTER_PLATFORM=cluster $(HEAVY) -tags conformance -timeout 30m -skip '^(TestTensorFlow|TestSIGTERMReachesTheTrainer|TestAQueue.*|TestPaused|TestItGrowsAndGivesBack|TestWaitsForWhoHolds|TestSuspendAndResume|TestAFailureIsTriedAgain|TestTheRestIsStopped|TestPartsAreTold|TestCodeComesAlong|TestDataIsItsNamespaces|TestDataIsFetchedAhead|TestDataOnDemand|TestEnvironment.*|TestWorkerOfAStageGoes|TestAgentsGoUnderAStage|TestUninstalledUnderPods|TestClaimsOfOthers|TestQuotasOnDevices|TestPipeline.+|TestExampleOfImages)$$' conformance-cluster ./test/conformance
test-kubernetes-agent: tested test-deps cluster-deps $(GOTESTSUM)
	@MUSTER_PLATFORM=agent $(HEAVY) -tags conformance -timeout 35m -run 'SIGTERM|Part|Claim|Code|Data|OwnGPUs|Environment|Report|Pipeline|Example|UnderAStage|WorkerOfAStage|Uninstalled|Quotas' -skip '^(TestDataInVersions|TestDataOfOthers|TestPipelineSpark.*|TestPipelineTrainingMoves|TestPipelineEnvironment|TestEnvironmentIsBuiltOnce|TestPipelineResultsOfALaptop)$$' conformance-agent ./test/conformance
test-kubernetes-chaos: tested cluster-deps $(GOTESTSUM)
	@MUSTER_CHAOS_GANGS=9 $(HEAVY) -sources -tags chaos -timeout 20m -skip '^TestRestore$$' chaos ./test/chaos

test-conformance: tested test-deps cluster-deps $(GOTESTSUM) ## one suite against embedded Muster and against a real Kubernetes, with a device plugin and with the agent; needs root
	@$(HEAVY) -tags conformance -timeout 20m -skip '^(TestANodeThatVanishes|TestATenantAtTheDoor|TestATenantsCommands|TestSIGTERMReachesTheTrainer|TestPipelineMemory|TestDataOfOthers|TestCodeComesAlong|TestDataIsItsNamespaces|TestDataIsFetchedAhead|TestDataOnDemand|TestEnvironmentOfATenant|TestEnvironmentIsBuiltWhileMusterIsAway|TestWorkerOfAStageGoes|TestAgentsGoUnderAStage|TestUninstalledUnderPods|TestClaimsOfOthers|TestQuotasOnDevices)$$' conformance-all-embedded ./test/conformance
	@MUSTER_PLATFORM=cluster $(HEAVY) -tags conformance -timeout 30m -skip '^(TestPartsAreTold|TestPipelineMemory|TestSIGTERMReachesTheTrainer|TestCodeComesAlong|TestDataIsItsNamespaces|TestDataIsFetchedAhead|TestDataOnDemand|TestEnvironment.*|TestWorkerOfAStageGoes|TestAgentsGoUnderAStage|TestUninstalledUnderPods|TestClaimsOfOthers|TestQuotasOnDevices)$$' conformance-all-cluster ./test/conformance
	@MUSTER_PLATFORM=agent $(HEAVY) -tags conformance -timeout 45m -skip '^TestATenantsCommands$$' conformance-all-agent ./test/conformance

test-chaos: tested cluster-deps $(GOTESTSUM) ## a real Kubernetes whose components are killed, and whose Muster is replaced, while jobs run; needs root
	@$(HEAVY) -sources -tags chaos -timeout 20m chaos-all ./test/chaos

test-gpu: tested cluster-deps $(GOTESTSUM) ## on a machine with one NVIDIA GPU: jobs, images, shares, and a real Kubernetes that has it; with PyTorch and MPS if they are installed; needs root
	@$(HEAVY) -fresh -tags nvml,gpu -timeout 5m -run '^TestReal' gpu ./internal/node/gpu
	@$(HEAVY) -fresh -tags e2e,cluster,gpu -timeout 10m -run '^TestGPU' gpu-e2e ./test/e2e
	@MUSTER_PLATFORM=gpu $(HEAVY) -fresh -tags conformance,gpu -timeout 10m -run '^TestRealGPU' gpu-kubernetes ./test/conformance

test-autoscaler: tested test-deps cluster-deps $(GOTESTSUM) ## gangs for which a real Karpenter makes nodes, on a real Kubernetes; needs root
	@$(HEAVY) -tags autoscaler -timeout 15m autoscaler ./test/autoscaler

test-clients: clients-deps $(GOTESTSUM) ## boto3, aws, s3fs, pandas, rclone and TensorFlow, unmodified, at the S3 gateway; TensorFlow 2 with sparse clusters
	@$(HEAVY) -alone -tags clients -timeout 10m -run 'Python|AWS|Rclone|TensorFlow' clients ./internal/gateway ./internal/rendezvous

test-clients-latest: $(GOTESTSUM) ## the same with the newest releases of these clients
	@hack/clients-deps latest
	@$(HEAVY) -fresh -tags clients -timeout 10m -run 'Python|AWS|Rclone|TensorFlow' clients-latest ./internal/gateway ./internal/rendezvous

test-browser: browser-deps $(GOTESTSUM) ## the console in a real Chromium: sign-in, cookies, sessions, pages of other ports, languages
	@$(SUITE) -tags browser -timeout 10m -run '^TestBrowser' browser ./internal/people/web

test-all: ## every suite except test-gpu and test-clients-latest, and lint; no cached results: hours
	@CI_FULL=1 $(MAKE) --no-print-directory test-unit test-exhaustive test-race test-mounts test-embedded test-e2e test-long test-clients test-browser test-python test-images test-cluster test-conformance test-chaos test-autoscaler lint
	@$(MAKE) --no-print-directory test-dist DIST_TESTED=all

test-times: ## the thirty costliest tests of the last run of each suite
	@go run ./hack/suite -times

bench-cluster: build cluster-deps ## with a real API server in the loop, beside the raw ceiling and kube-scheduler
	@go run ./benchmarks/cluster $(ARGS)

cluster-deps:
	@hack/cluster-deps >/dev/null

test-deps:
	@hack/test-deps

clients-deps:
	@hack/clients-deps

browser-deps:
	@hack/browser-deps

lint: $(GOLANGCI) ## import rules and linters, without exceptions
	@$(GOLANGCI) run --allow-parallel-runners

generate: $(CONTROLLER_GEN) ## deep copies and CRDs from the API types
	@$(CONTROLLER_GEN) object paths=./api/v1alpha1 paths=./api/kubeflow/v1
	@$(CONTROLLER_GEN) crd:maxDescLen=400 paths=./api/v1alpha1 output:crd:dir=charts/muster/crd
	@$(CONTROLLER_GEN) crd:maxDescLen=400 paths=./api/kubeflow/v1 output:crd:dir=charts/muster/kubeflow

verify: generate ## generated files and go.mod are up to date
	@go mod tidy -diff >/dev/null || { echo "verify: go.mod is not tidy: run 'go mod tidy'" >&2; exit 1; }
	@git diff --exit-code --stat -- api charts/muster/crd charts/muster/kubeflow || { echo "verify: generated files differ: run 'make generate' and commit" >&2; exit 1; }

bench: build ## the figures of docs/benchmarks.md, beside what they are compared with
	@go test -v -tags e2e -count=1 -timeout 60m -run '^TestBench' ./benchmarks/...

bench-data: build clients-deps ## versioned storage, beside cp, restic and DVC, what jobs read beside rclone, and its S3 gateway beside versitygw; ARGS="-scale 0.1 -only small" for a part
	@hack/bench-peers
	@go run ./benchmarks/data -muster bin/muster -peers "$(MUSTER_TEST_CACHE)/bench" $(ARGS)

bench-scheduler: ## the scheduler's figures on real traces ($MUSTER_TRACES), beside targets and published figures
	@go test -tags traces -count=1 -timeout 30m -run 'TestPublished|TestPhillyProtocol' ./internal/simulate/...
	@go run ./benchmarks/scheduler

chaos: build ## hundreds of kill -9 in each tier, watched from outside: half an hour
	@MUSTER_CHAOS_KILLS=$${MUSTER_CHAOS_KILLS:-200} go test -tags e2e -count=1 -timeout 120m -v -run '^TestChaos' ./test/e2e/...

chaos-cluster: build cluster-deps ## kill components of a real Kubernetes while 200 gangs run, and count the results: half an hour
	@MUSTER_CHAOS_GANGS=$${MUSTER_CHAOS_GANGS:-200} go test -tags chaos -count=1 -timeout 120m -v -run '^TestChaos$$' ./test/chaos

# All parts, or those that ONLY names: make dist ONLY=wheel,linux-amd64.
dist: ## the files of a release, in dist/: wheel, archives, image, chart, licences, checksums; ONLY=PART,... for a part
	@go run ./hack/dist -only "$(ONLY)"

# What one run tries, and where it is made: all that runs on Linux amd64, and one of each other
# system; with DIST_TESTED=all every part of a release.
DIST_TESTED ?= licenses,chart,linux-amd64-static,wheel,image-amd64,darwin-arm64,windows-amd64
DIST_FOLDER ?= bin/dist
test-dist: cluster-deps $(GOTESTSUM) ## tests of the release files: the wheel in a virtual environment, the static program in an empty root file system; needs root
	@go run ./hack/dist -only "$(filter-out all,$(DIST_TESTED))" -out "$(DIST_FOLDER)"
	@MUSTER_DIST="$(abspath $(DIST_FOLDER))" MUSTER_DIST_PARTS="$(DIST_TESTED)" $(HEAVY) -alone -fresh -tags dist -timeout 15m dist ./test/dist

clean: ## remove what was built; caches stay
	@rm -rf bin dist internal/node/shim/bin/muster-shim internal/node/shim/bin/muster-worker

$(GOLANGCI):
	@hack/install-tool $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
$(CONTROLLER_GEN):
	@hack/install-tool $@ sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
$(GOTESTSUM):
	@hack/install-tool $@ gotest.tools/gotestsum@v1.13.0
