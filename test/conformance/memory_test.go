//go:build conformance

package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// hungry has a stage whose program needs more memory than its limit, and one whose memory counts
// for the whole container: the kernel ends the worker with the program, and the pod fails.
const hungry = `metadata: {name: hungry}
spec:
  environment: {image: %q}
  stages:
  - name: program
    input: {dataset: things, glob: "/a"}
    tries: 1
    resources: {requests: {cpu: 10m, memory: 40Mi}, limits: {memory: 40Mi}}
    command: [sh, -c, 'tail /dev/zero']
  - name: container
    input: {dataset: things, glob: "/a"}
    tries: 1
    resources: {requests: {cpu: 10m, memory: 40Mi}, limits: {memory: 40Mi}}
    command: [sh, -c, 'for p in /proc/[0-9]*; do echo 1000 > $p/oom_score_adj; done; head -c 60000000 /dev/zero > /dev/shm/x; sleep 100']
`

// TestPipelineMemory checks that a run reports a worker that the kernel killed for lack of memory,
// with the limit.
func TestPipelineMemory(t *testing.T) {
	if platformName() != "agent" {
		t.Fatal("no kubelet bounds the memory of workers: leave this test out here, by name, as the Makefile does")
	}
	a := the.author(t)
	a.says("created", "data", "create", "things")
	a.put("things", map[string]string{"a": "1"})
	a.apply(fmt.Sprintf(hungry, the.image))
	if r := a.muster("pipeline", "wait", "hungry", "--timeout", "55s"); r.Code != 1 {
		t.Fatalf("muster pipeline wait: code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for stage, words := range map[string]string{
		"program":   "OOM killed: the program needs more memory than its limit of 40.0 MiB",
		"container": "OOM killed: the program and its worker need more memory than their limit of 40.0 MiB; raise the stage's memory limit",
	} {
		r := a.muster("pipeline", "explain", "hungry", stage)
		if r.Code != 0 || !strings.Contains(r.Stdout, "datum a failed after 1 try: "+words) {
			t.Errorf("muster pipeline explain hungry %s: code %d, want %q: %s%s", stage, r.Code, words, r.Stdout, r.Stderr)
		}
	}
}
