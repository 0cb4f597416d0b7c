# What each target does is printed by `make help`.
SHELL := /bin/bash
.DELETE_ON_ERROR:

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOLS    := .cache/tools
GOLANGCI := $(TOOLS)/golangci-lint-v2.15.0
CONTROLLER_GEN := $(TOOLS)/controller-gen-v0.23.0
GOTESTSUM := $(TOOLS)/gotestsum-v1.13.0

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
UNIT := $(shell go list ./... 2>/dev/null | grep -v -E '/internal/(controlplane|cli/up)$$|/cmd/muster$$')

.PHONY: help build shim test test-unit test-exhaustive test-mounts test-race test-embedded test-e2e test-long lint verify generate bench bench-scheduler chaos quickstart clean test-deps test-images test-cluster test-kubernetes test-conformance test-chaos test-autoscaler bench-cluster bench-data chaos-cluster cluster-deps clients-deps test-clients test-python test-gpu dist test-dist
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: shim ## bin/muster, with its shim inside
	@hack/build "$(TAGS)" "$(VERSION)"

shim: internal/node/shim/bin/muster-shim internal/node/shim/bin/muster-worker
internal/node/shim/bin/muster-shim: $(wildcard cmd/muster-shim/*.go internal/node/shim/*.go internal/node/shim/*/*.go internal/node/process/*.go)
	@echo "muster: building the shim (static, one per container)"
	@CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $@ ./cmd/muster-shim
internal/node/shim/bin/muster-worker: $(wildcard cmd/muster-worker/*.go internal/agent/ondemand/*.go internal/data/*.go internal/data/*/*.go internal/foreman/worker/*.go internal/foreman/parcel/*.go internal/foreman/shift/*.go internal/spark/*.go)
	@echo "muster: building the worker of pipelines (static, runs in images)"
	@CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $@ ./cmd/muster-worker

quickstart: build ## build, start Muster in the background, run distributed TensorFlow
	@hack/quickstart

# What only computes has what the others leave of the processors; lint beside it with CI.
BESIDE ?= test-exhaustive
test: test-unit test-mounts test-embedded ## everything that lands with a change: see CONTRIBUTING.md for the longer ones
	@hack/beside "$(BESIDE)" test-e2e test-clients test-python test-images test-kubernetes

test-unit: shim $(GOTESTSUM) ## the quick ones; no API server
	@hack/gotest "$(GOTESTSUM)" unit -short -skip '^TestEveryGuardIsNeeded$$' $(UNIT)

test-exhaustive: $(GOTESTSUM) ## every write failing in every way, every order of events of the fence, a million files: minutes
	@hack/gotest "$(GOTESTSUM)" exhaustive -run '^TestEvery' ./internal/controller/... ./internal/fencing ./internal/data

test-mounts: build test-deps $(GOTESTSUM) ## data as a file system of the kernel's, its servers killed, and a disk whose power is cut at every change; wants /dev/fuse, and root or fusermount3
	@hack/gotest "$(GOTESTSUM)" mounts -tags fuse -count=1 -timeout 5m ./internal/data/mount/... ./internal/agent/datavolume
	@hack/gotest "$(GOTESTSUM)" power -tags fuse -count=1 -timeout 5m -run '^TestPower' ./internal/data
	@hack/gotest "$(GOTESTSUM)" mounts-e2e -tags e2e,fuse -count=1 -timeout 10m -run '^TestLazy' ./test/e2e

test-race: shim $(GOTESTSUM) ## the same under the race detector: minutes
	@hack/gotest "$(GOTESTSUM)" race $(RACE) -timeout 30m $(UNIT)

test-embedded: shim $(GOTESTSUM) ## against a real kube-apiserver and etcd
	@hack/gotest "$(GOTESTSUM)" embedded -tags embedded ./internal/controlplane ./internal/snapshot ./internal/dataset ./internal/gateway/registry ./internal/pachyderm ./internal/manager ./internal/cli/queue ./internal/cli/data ./internal/cli/pause ./internal/cli/serve ./internal/cli/node ./internal/cli/install ./internal/cli/user ./internal/cli/doctor

test-e2e: build test-deps $(GOTESTSUM) ## the product as a person runs it: muster up, TensorFlow, PyTorch, kubectl
	@hack/gotest "$(GOTESTSUM)" e2e -tags e2e -count=1 -timeout 50m -skip '^TestSpark(Endings)?$$' ./test/e2e/...

test-long: build test-deps cluster-deps $(GOTESTSUM) ## what make test has a part of: all writes of pipelines failing in all ways, tests end to end that take long in both tiers, a thousand jobs; wants root
	@MUSTER_TEST_LONG=1 hack/gotest "$(GOTESTSUM)" long-exhaustive -count=1 -timeout 40m -run '^TestEveryWriteMayFail$$' ./internal/controller/pipeline
	@MUSTER_TEST_LONG=1 hack/gotest "$(GOTESTSUM)" long -tags e2e,cluster -count=1 -timeout 50m -run '^(TestTensorFlow|TestTensorFlowSurvives.*|TestPipelineOfImages|TestSpark|TestSparkEndings|TestSparkInImages|TestASaveCounts.*|TestDeletingWhile.*|TestPackagesOnTopOfImages|TestManySubmits)$$' ./test/e2e

test-python: build ## the Python package: types, and tests against a Muster of their own
	@hack/test-python $(ARGS)

test-images: build test-deps cluster-deps $(GOTESTSUM) ## images on one machine, with a real containerd; wants root
	@hack/gotest "$(GOTESTSUM)" images-node -tags cluster -count=1 -timeout 10m -run 'Image|Pull|Containerd' ./internal/node ./internal/node/image
	@hack/gotest "$(GOTESTSUM)" images-e2e -tags e2e,cluster -count=1 -timeout 15m -run '^(TestImages|TestStagesInImages)$$' ./test/e2e

test-cluster: cluster-deps $(GOTESTSUM) ## a real Kubernetes on this machine: kubelets, containerd, pretend GPUs; wants root
	@hack/gotest "$(GOTESTSUM)" cluster -tags cluster -count=1 -timeout 20m ./test/cluster/... ./benchmarks/cluster

test-kubernetes: build test-deps cluster-deps $(GOTESTSUM) ## what of the following three belongs to every change, on a real Kubernetes (pipelines with the agent alone, but for one, and without what takes minutes); wants root
	@MUSTER_PLATFORM=cluster hack/gotest "$(GOTESTSUM)" conformance-cluster -tags conformance -count=1 -timeout 30m -skip '^(TestTensorFlow|TestAQueue.*|TestPaused|TestItGrowsAndGivesBack|TestWaitsForWhoHolds|TestSuspendAndResume|TestAFailureIsTriedAgain|TestTheRestIsStopped|TestPartsAreTold|TestCodeComesAlong|TestDataIsItsNamespaces|TestDataIsFetchedAhead|TestDataOnDemand|TestEnvironment.*|TestWorkerOfAStageGoes|TestAgentsGoUnderAStage|TestPipeline.+|TestExampleOfImages)$$' ./test/conformance
	@MUSTER_PLATFORM=agent hack/gotest "$(GOTESTSUM)" conformance-agent -tags conformance -count=1 -timeout 35m -run 'Part|Claim|Code|Data|OwnGPUs|Environment|Report|Pipeline|Example|UnderAStage|WorkerOfAStage' -skip '^(TestDataInVersions|TestDataOfOthers|TestPipelineSpark.*|TestPipelineTrainingMoves|TestPipelineEnvironment|TestEnvironmentIsBuiltOnce|TestPipelineResultsOfALaptop)$$' ./test/conformance
	@MUSTER_CHAOS_GANGS=9 hack/gotest "$(GOTESTSUM)" chaos -tags chaos -count=1 -timeout 20m -skip '^TestRestore$$' ./test/chaos

test-conformance: build test-deps cluster-deps $(GOTESTSUM) ## one suite against embedded Muster and against a real Kubernetes, with a device plugin and with the agent; wants root
	@hack/gotest "$(GOTESTSUM)" conformance-embedded -tags conformance -count=1 -timeout 20m -skip '^(TestANodeThatVanishes|TestATenantAtTheDoor|TestDataOfOthers|TestCodeComesAlong|TestDataIsItsNamespaces|TestDataIsFetchedAhead|TestDataOnDemand|TestEnvironmentOfATenant|TestEnvironmentIsBuiltWhileMusterIsAway|TestWorkerOfAStageGoes|TestAgentsGoUnderAStage)$$' ./test/conformance
	@MUSTER_PLATFORM=cluster hack/gotest "$(GOTESTSUM)" conformance-cluster -tags conformance -count=1 -timeout 30m -skip '^(TestPartsAreTold|TestCodeComesAlong|TestDataIsItsNamespaces|TestDataIsFetchedAhead|TestDataOnDemand|TestEnvironment.*|TestWorkerOfAStageGoes|TestAgentsGoUnderAStage)$$' ./test/conformance
	@MUSTER_PLATFORM=agent hack/gotest "$(GOTESTSUM)" conformance-agent -tags conformance -count=1 -timeout 45m ./test/conformance

test-chaos: build cluster-deps $(GOTESTSUM) ## a real Kubernetes whose parts are killed, and whose Muster is replaced, under jobs that run; wants root
	@hack/gotest "$(GOTESTSUM)" chaos -tags chaos -count=1 -timeout 20m ./test/chaos

test-gpu: build cluster-deps $(GOTESTSUM) ## on a machine with one NVIDIA GPU: jobs, images, shares, and a real Kubernetes that has it; with PyTorch and MPS where they are there; wants root
	@hack/gotest "$(GOTESTSUM)" gpu -tags nvml,gpu -count=1 -timeout 5m -run '^TestReal' ./internal/node/gpu
	@hack/gotest "$(GOTESTSUM)" gpu-e2e -tags e2e,cluster,gpu -count=1 -timeout 10m -run '^TestGPU' ./test/e2e
	@MUSTER_PLATFORM=gpu hack/gotest "$(GOTESTSUM)" gpu-kubernetes -tags conformance,gpu -count=1 -timeout 10m -run '^TestRealGPU' ./test/conformance

test-autoscaler: build test-deps cluster-deps $(GOTESTSUM) ## gangs for which a real Karpenter makes nodes, on a real Kubernetes; wants root
	@hack/gotest "$(GOTESTSUM)" autoscaler -tags autoscaler -count=1 -timeout 15m ./test/autoscaler

bench-cluster: build cluster-deps ## with a real API server in the loop, beside the raw ceiling and kube-scheduler
	@go run ./benchmarks/cluster $(ARGS)

cluster-deps:
	@hack/cluster-deps >/dev/null

test-deps:
	@hack/test-deps

clients-deps:
	@hack/clients-deps

test-clients: clients-deps $(GOTESTSUM) ## boto3, aws, s3fs, pandas, rclone and TensorFlow, unmodified, at the S3 gateway
	@hack/gotest "$(GOTESTSUM)" clients -tags clients -count=1 -timeout 10m -run 'Python|AWS|Rclone|TensorFlow' ./internal/gateway

lint: $(GOLANGCI) ## the walls of the design and the linters, without exceptions
	@$(GOLANGCI) run --allow-parallel-runners

generate: $(CONTROLLER_GEN) ## deep copies and CRDs from the API types
	@$(CONTROLLER_GEN) object paths=./api/v1alpha1 paths=./api/kubeflow/v1
	@$(CONTROLLER_GEN) crd:maxDescLen=400 paths=./api/v1alpha1 output:crd:dir=charts/muster/crd
	@$(CONTROLLER_GEN) crd:maxDescLen=400 paths=./api/kubeflow/v1 output:crd:dir=charts/muster/kubeflow

verify: generate ## generated files and go.mod are up to date
	@go mod tidy -diff >/dev/null || { echo "verify: go.mod is not tidy: run 'go mod tidy'" >&2; exit 1; }
	@git diff --exit-code --stat -- api charts/muster/crd charts/muster/kubeflow || { echo "verify: generated files differ: run 'make generate' and commit" >&2; exit 1; }

bench: build ## the figures of the README, beside what they are compared with
	@hack/gotest "" bench -tags e2e -count=1 -timeout 60m -run '^TestBench' ./benchmarks/...

bench-data: build clients-deps ## versioned storage, beside cp, restic and DVC, what jobs read beside rclone, and its S3 gateway beside versitygw; ARGS="-scale 0.1 -only small" for a part
	@hack/bench-peers
	@go run ./benchmarks/data -muster bin/muster $(ARGS)

bench-scheduler: ## the scheduler's figures on real traces ($MUSTER_TRACES), beside targets and published figures
	@go test -tags traces -count=1 -timeout 30m -run 'TestPublished|TestPhillyProtocol' ./internal/simulate/...
	@go run ./benchmarks/scheduler

chaos: build ## hundreds of kill -9 in each tier, watched from outside: half an hour
	@MUSTER_CHAOS_KILLS=$${MUSTER_CHAOS_KILLS:-200} go test -tags e2e -count=1 -timeout 120m -v -run '^TestChaos' ./test/e2e/...

chaos-cluster: build cluster-deps ## the same for 200 gangs, with counts of what was seen: half an hour
	@MUSTER_CHAOS_GANGS=$${MUSTER_CHAOS_GANGS:-200} go test -tags chaos -count=1 -timeout 120m -v -run '^TestChaos$$' ./test/chaos

# All parts, or those that ONLY names: make dist ONLY=wheel,linux-amd64.
dist: ## the files of a release, in dist/: wheel, archives, image, chart, licences, checksums; ONLY=PART,... for a part
	@go run ./hack/dist -only "$(ONLY)"

# What one run tries: all that runs on Linux amd64, and one of each other system.
DIST_TESTED ?= licenses,chart,linux-amd64-static,wheel,image-amd64,darwin-arm64,windows-amd64
test-dist: $(GOTESTSUM) ## the files of a release as users have them: the wheel in a virtual environment, the static program in an empty root; wants root
	@go run ./hack/dist -only "$(DIST_TESTED)" -out .cache/dist/tested
	@MUSTER_DIST="$(CURDIR)/.cache/dist/tested" MUSTER_DIST_PARTS="$(DIST_TESTED)" hack/gotest "$(GOTESTSUM)" dist -tags dist -count=1 -timeout 15m ./test/dist

clean: ## remove what was built; caches stay
	@rm -rf bin dist internal/node/shim/bin/muster-shim internal/node/shim/bin/muster-worker

$(GOLANGCI):
	@hack/install-tool $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
$(CONTROLLER_GEN):
	@hack/install-tool $@ sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
$(GOTESTSUM):
	@hack/install-tool $@ gotest.tools/gotestsum@v1.13.0
