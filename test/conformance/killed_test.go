//go:build conformance

package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// held is a pipeline whose programs hold their datum until they are released.
const held = `metadata: {name: held}
spec:
  environment: {image: %q}
  stages:
  - name: upper
    input: {dataset: words, glob: "/*"}%s
    command: [sh, -c, 'while [ ! -e "$MUSTER_ROOT/tmp/release" ]; do sleep 0.05; done; cat $MUSTER_INPUT_WORDS/* | tr a-z A-Z > $MUSTER_OUTPUT/$MUSTER_DATUM']
`

// soon is how long it takes at most until a datum whose worker is gone is computed by
// another: a kubelet that is refused something asks again after a minute, which must
// not be what is waited for.
const soon = 50 * time.Second

// TestWorkerOfAStageGoes: what holds a datum goes while its program runs, and the
// datum is computed by who comes after it, soon.
func TestWorkerOfAStageGoes(t *testing.T) {
	if the.counts {
		t.Fatal("pipelines are refused where no agent hands on what workers say: leave this test out here, by name, as the Makefile does")
	}
	cases := map[string]func(a *author, pod *corev1.Pod, datum string){
		"its pod is deleted": func(a *author, pod *corev1.Pod, _ string) {
			if err := the.api.Delete(a.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
				a.Fatal(err)
			}
		},
		"its process is killed": func(a *author, _ *corev1.Pod, datum string) { a.kill(datum) },
	}
	for _, gpus := range []string{"", "\n    gpus: 1"} {
		for name, goes := range cases {
			if gpus != "" {
				name += ", with a GPU"
			}
			t.Run(name, func(t *testing.T) {
				a := the.author(t)
				datum := a.namespace // nobody else's
				a.apply(fmt.Sprintf(held, the.image, gpus))
				a.says("created", "data", "create", "words")
				a.put("words", map[string]string{datum: "one\n"})
				pod := a.computing(datum, "")
				began := time.Now()
				goes(a, pod, datum)
				next := a.computing(datum, pod.UID)
				took := time.Since(began).Round(time.Second / 10)
				if t.Logf("computed again after %s", took); took > soon {
					t.Errorf("computed again after %s, want %s at most", took, soon)
				}
				a.release(next)
				a.says("", "pipeline", "wait", "held", "--timeout", "50s")
				a.says("ONE\n", "data", "cat", "held-upper:/"+datum)
			})
		}
	}
}

// TestAgentsGoUnderAStage: the agents of all nodes are started anew while a program runs,
// which ends while none is there: its worker waits for the next one to hand on what it
// has computed.
func TestAgentsGoUnderAStage(t *testing.T) {
	if platformName() != "agent" {
		t.Fatal("there are no agents: leave this test out here, by name, as the Makefile does")
	}
	a := the.author(t)
	datum := a.namespace
	a.apply(fmt.Sprintf(held, the.image, ""))
	a.says("created", "data", "create", "words")
	a.put("words", map[string]string{datum: "one\n"})
	pod := a.computing(datum, "")
	r := the.kubectl(t, "", "-n", v1alpha1.SystemNamespace, "delete", "pods", "-l", "app.kubernetes.io/component=node", "--grace-period=0", "--force", "--wait=false")
	if r.Code != 0 || !strings.Contains(r.Stdout, "deleted") {
		t.Fatalf("stopping the agents: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	a.release(pod)
	a.says("", "pipeline", "wait", "held", "--timeout", "50s")
	a.says("ONE\n", "data", "cat", "held-upper:/"+datum)
	var now corev1.Pod
	if err := the.api.Get(t.Context(), client.ObjectKeyFromObject(pod), &now); err == nil && now.UID != pod.UID {
		t.Errorf("it was computed again, in %s on %s", now.Name, now.Spec.NodeName)
	}
}

// computing waits until a program computes a datum in a pod other than one, and
// returns the pod.
func (a *author) computing(datum string, other types.UID) *corev1.Pod {
	a.Helper()
	var found corev1.Pod
	before := programs(datum)
	if other == "" {
		before = nil
	}
	harness.Eventually(a, within, "waiting for a program that computes", func() error {
		var pods corev1.PodList
		if err := the.api.List(a.Context(), &pods, client.InNamespace(a.namespace), client.HasLabels{v1alpha1.LabelJob}); err != nil {
			return err
		}
		said := ""
		for i := range pods.Items {
			found = pods.Items[i]
			said += fmt.Sprintf("; %s is %s", found.Name, found.Status.Phase)
			fresh := slices.ContainsFunc(programs(datum), func(pid int) bool { return !slices.Contains(before, pid) })
			if found.UID != other && found.Status.Phase == corev1.PodRunning && fresh {
				return nil
			}
		}
		return fmt.Errorf("%d programs compute%s", len(programs(datum)), said)
	})
	return &found
}

// release lets the program in a pod go on.
func (a *author) release(pod *corev1.Pod) {
	a.Helper()
	if r := the.kubectl(a, "", "-n", a.namespace, "exec", pod.Name, "--", "sh", "-c", `mkdir -p "$MUSTER_ROOT/tmp" && : > "$MUSTER_ROOT/tmp/release"`); r.Code != 0 {
		a.Fatalf("releasing the program in %s: %s", pod.Name, r.Stderr)
	}
}

// kill kills the worker whose program computes a datum.
func (a *author) kill(datum string) {
	a.Helper()
	for _, pid := range programs(datum) {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue // it ended meanwhile
		}
		// After the name, which is in brackets: state, parent.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			a.Fatal(err)
		}
		command, err := os.ReadFile(filepath.Join("/proc", fields[1], "cmdline"))
		if err != nil || !bytes.Contains(command, []byte("worker\x00")) {
			continue
		}
		if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
			a.Fatalf("killing the worker: %v", err)
		}
		return
	}
	a.Fatalf("no worker computes %s", datum)
}

// programs are the processes of this machine, and of all that runs on it, that have
// a datum.
func programs(datum string) (out []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("MUSTER_DATUM="+datum+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
