//go:build conformance

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestMembersReachOneAnother starts two parameter servers that answer on the
// port they were given and two workers that ask both by the names they were
// given.
func TestMembersReachOneAnother(t *testing.T) {
	ns := the.namespace(t)
	serve := `cd "$MUSTER_ROOT" && mkdir -p www && echo "from ps $INDEX" > www/index.html && exec busybox httpd -f -p "$(echo "$PS_HOSTS" | cut -d, -f$((INDEX+1)) | sed "s/.*://")" -h www`
	ask := `for host in $(echo "$PS_HOSTS" | tr , ' '); do until bash -c 'exec 3<>"/dev/tcp/${0%:*}/${0##*:}" && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && grep from <&3' "$host" 2>/dev/null; do sleep 0.2; done; done; echo "TF_CONFIG=$TF_CONFIG"`
	the.submit(t, ns, "meet", fmt.Sprintf("{framework: TensorFlow, roles: [{name: ps, replicas: 2, command: %s}, {name: worker, replicas: 2, gpus: 1, command: %s}]}", command(serve), command(ask)))
	the.until(t, ns, "meet", v1alpha1.JobSucceeded)
	for i := range 2 {
		out := the.output(t, ns, fmt.Sprintf("meet-worker-%d", i))
		for _, want := range []string{"from ps 0", "from ps 1"} {
			if !strings.Contains(out, want) {
				t.Errorf("worker %d did not hear %q:\n%s", i, want, out)
			}
		}
		_, text, _ := strings.Cut(out, "TF_CONFIG=")
		var config struct {
			Cluster map[string][]string `json:"cluster"`
			Task    struct {
				Type  string `json:"type"`
				Index int    `json:"index"`
			} `json:"task"`
		}
		if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &config); err != nil {
			t.Fatalf("reading TF_CONFIG %q: %v", text, err)
		}
		if len(config.Cluster["ps"]) != 2 || len(config.Cluster["worker"]) != 2 || config.Task.Type != "worker" || config.Task.Index != i {
			t.Errorf("TF_CONFIG of worker %d: %s", i, text)
		}
	}
}

// TestManyMembersShareAddresses starts so many members that their addresses are
// written once, in a ConfigMap that goes when nothing is held any more. Each
// must be told what a few are told.
func TestManyMembersShareAddresses(t *testing.T) {
	ns := the.namespace(t)
	name, n := "a-job-whose-name-is-as-long-as-some-people-like", 24
	if p := os.Getenv("MUSTER_PLATFORM"); p == "" || p == "embedded" {
		n = 150 // on one machine addresses are short
	}
	check := fmt.Sprintf(`test "$(echo "$WORKER_HOSTS" | tr , '\n' | wc -l)" = %d || exit 3; echo "TF_CONFIG=$TF_CONFIG"`, n)
	the.submit(t, ns, name, fmt.Sprintf("{framework: TensorFlow, roles: [{name: worker, replicas: %d, resources: {requests: {cpu: 1m, memory: 1Mi}}, command: %s}]}", n, command(check)))
	shared := func() int {
		var maps corev1.ConfigMapList
		if err := the.api.List(t.Context(), &maps, client.InNamespace(ns), client.MatchingLabels{v1alpha1.LabelGang: name}); err != nil {
			t.Fatal(err)
		}
		return len(maps.Items)
	}
	harness.Eventually(t, within, "waiting until the addresses are written", func() error {
		if got := shared(); got != 1 {
			return fmt.Errorf("%d ConfigMaps", got)
		}
		return nil
	})
	the.until(t, ns, name, v1alpha1.JobSucceeded)
	_, text, _ := strings.Cut(the.output(t, ns, name+"-worker-7"), "TF_CONFIG=")
	var config struct {
		Cluster map[string][]string `json:"cluster"`
		Task    struct {
			Index int `json:"index"`
		} `json:"task"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &config); err != nil {
		t.Fatalf("reading TF_CONFIG %q: %v", text, err)
	}
	if len(config.Cluster["worker"]) != n || config.Task.Index != 7 {
		t.Errorf("TF_CONFIG of worker 7: %s", text)
	}
	harness.Eventually(t, within, "waiting until the addresses are gone", func() error {
		if got := shared(); got != 0 {
			return fmt.Errorf("%d ConfigMaps are left", got)
		}
		return nil
	})
}

// TestAllOrNothing asks for one GPU more than there is: no pod is made, nothing
// is held, and the reason says how many are missing.
func TestAllOrNothing(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "five", 5, 1, "")
	the.says(t, ns, "five", "5", "GPU")
	if n := the.placements(t, ns); n != 0 {
		t.Errorf("%d placements, want none", n)
	}
	var pods corev1.PodList
	if err := the.api.List(t.Context(), &pods, client.InNamespace(ns)); err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods of a gang that waits: %v", len(pods.Items), err)
	}
	if r := the.muster(t, "-n", ns, "why", "five"); r.Code != 0 || !strings.Contains(r.Stdout, "GPU") {
		t.Errorf("muster why: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	// What it asks for besides does not keep others out.
	the.holding(t, ns, "four", 4, 1, "")
	the.until(t, ns, "four", v1alpha1.JobRunning)
}

// TestWaitsForWhoHolds has a job wait for the one that holds all GPUs, say so,
// and start when that ends.
func TestWaitsForWhoHolds(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "first", 4, 1, "")
	the.until(t, ns, "first", v1alpha1.JobRunning)
	the.holding(t, ns, "second", 2, 1, "")
	the.until(t, ns, "second", v1alpha1.JobWaiting)
	if r := the.muster(t, "-n", ns, "why", "second"); r.Code != 0 || !strings.Contains(r.Stdout, "first") {
		t.Errorf("muster why does not name who holds what is missing: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	the.release(t, ns, "first", "worker", 0, 1, 2, 3)
	the.until(t, ns, "first", v1alpha1.JobSucceeded)
	the.until(t, ns, "second", v1alpha1.JobRunning)
}

// TestTheRestIsStopped ends the workers: the parameter servers, which would
// serve for ever, are stopped, and what they held is free.
func TestTheRestIsStopped(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "classic", fmt.Sprintf("{framework: TensorFlow, roles: [{name: ps, replicas: 2, command: [sleep, '100000']}, {name: worker, replicas: 2, gpus: 1, command: %s}]}", command(hold)))
	the.until(t, ns, "classic", v1alpha1.JobRunning)
	the.release(t, ns, "classic", "worker", 0, 1)
	the.until(t, ns, "classic", v1alpha1.JobSucceeded)
	harness.Eventually(t, 15*time.Second, "waiting until the parameter servers are gone", func() error {
		if live := the.pods(t, ns, "classic"); len(live) > 0 {
			return fmt.Errorf("%s is %s", live[0].Name, live[0].Status.Phase)
		}
		if n := the.placements(t, ns); n > 0 {
			return fmt.Errorf("%d placements hold something", n)
		}
		return nil
	})
}

// TestAMemberThatEndsFreesItsGPU has one of two workers end: the other goes on,
// and a job starts on what the first had.
func TestAMemberThatEndsFreesItsGPU(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "pair", 2, 2, "")
	the.until(t, ns, "pair", v1alpha1.JobRunning)
	the.holding(t, ns, "next", 1, 2, "")
	the.until(t, ns, "next", v1alpha1.JobWaiting)
	the.release(t, ns, "pair", "worker", 0)
	the.until(t, ns, "next", v1alpha1.JobRunning)
	if j := the.job(t, ns, "pair"); j.Status.Phase != v1alpha1.JobRunning {
		t.Errorf("pair is %s: %s", j.Status.Phase, j.Status.Message)
	}
}

// TestEveryMemberHasItsOwnGPUs has members print the devices they see: as many
// as each asked for, and none twice on one node.
func TestEveryMemberHasItsOwnGPUs(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "see", fmt.Sprintf("{roles: [{name: worker, replicas: 4, gpus: 1, command: %s}]}", command(`echo "devices=${MUSTER_GPUS:-$NVIDIA_VISIBLE_DEVICES}"; `+hold)))
	the.until(t, ns, "see", v1alpha1.JobRunning)
	seen := map[string]string{}
	for _, pod := range the.pods(t, ns, "see") {
		devices := printed(t, ns, pod.Name, "devices=")
		if devices == "" || strings.Contains(devices, ",") {
			t.Errorf("%s sees %q, want one device", pod.Name, devices)
		}
		at := pod.Spec.NodeName + "/" + devices
		if other := seen[at]; other != "" {
			t.Errorf("%s and %s both have %s", pod.Name, other, at)
		}
		seen[at] = pod.Name
	}
	if len(seen) != 4 {
		t.Errorf("%d members with a device, want 4: %v", len(seen), seen)
	}
}

// printed waits until a pod has printed a line that begins so, and returns the
// rest of it.
func printed(t testing.TB, ns, pod, prefix string) (rest string) {
	t.Helper()
	harness.Eventually(t, within, "waiting for the output of "+pod, func() error {
		for line := range strings.Lines(the.output(t, ns, pod)) {
			if after, ok := strings.CutPrefix(line, prefix); ok {
				rest = strings.TrimSpace(after)
				return nil
			}
		}
		return fmt.Errorf("no line begins with %q", prefix)
	})
	return rest
}

// TestMembersAreStoppedAtOnce deletes a job whose members do nothing about
// SIGTERM: being told suffices, nobody waits out the grace period.
func TestMembersAreStoppedAtOnce(t *testing.T) {
	ns := the.namespace(t)
	the.submit(t, ns, "idle", "{roles: [{name: worker, replicas: 2, gpus: 1, command: [sleep, '100000']}]}")
	the.until(t, ns, "idle", v1alpha1.JobRunning)
	began := time.Now()
	if r := the.muster(t, "-n", ns, "delete", "idle"); r.Code != 0 {
		t.Fatalf("muster delete: %s", r.Stderr)
	}
	the.gone(t, ns, "idle")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s, and the grace period is 30 s", took)
	}
}
