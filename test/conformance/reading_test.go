//go:build conformance

package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestJobsReadData: what a job names is on the nodes of its members, as it was when the
// job was submitted, and nobody writes to it. Where no agent brings it there, that is
// said at once.
func TestJobsReadData(t *testing.T) {
	ns, folder := the.namespace(t), t.TempDir()
	line := func(data string) []string {
		return []string{"-n", ns, "run", "--code", "none", "--image", the.image, "--checkpoints", "none", "--workers", "4", "--gpus", "1", "--data", data}
	}
	if the.counts {
		r := the.muster(t, append(line("digits"), "--", "true")...)
		if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "no agents that bring it to nodes") {
			t.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		return
	}
	put := func(text string) {
		t.Helper()
		for i := range 40 {
			path := filepath.Join(folder, "train", fmt.Sprint(i))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text+"\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if r := the.muster(t, "-n", ns, "data", "put", folder, "digits"); r.Code != 0 {
			t.Fatalf("putting data: %s%s", r.Stdout, r.Stderr)
		}
	}
	if r := the.muster(t, "-n", ns, "data", "create", "digits"); r.Code != 0 {
		t.Fatalf("making a dataset: %s%s", r.Stdout, r.Stderr)
	}
	put("the first")
	put("the second")
	says := func(data, script, want string) {
		t.Helper()
		r := the.muster(t, append(line(data), "--", "sh", "-c", script)...)
		if r.Code != 0 || strings.Count(r.Stdout, want) != 4 {
			t.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
	}
	says("digits:/train=/data", `! touch /data/new 2>/dev/null && echo "$(ls /data | wc -l) of $(cat /data/39)"`, "40 of the second")
	says("digits@main~1=/data", `echo "it reads $(cat $MUSTER_DATA_DIGITS/train/7)"`, "it reads the first")
	// What it was is written down, and nothing waits for it any more.
	var jobs v1alpha1.TrainingJobList
	if err := the.api.List(t.Context(), &jobs, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range jobs.Items {
		s := &jobs.Items[i].Status
		if len(s.Data) != 1 || len(s.Data[0].Commit) != 64 || s.Data[0].Files != 40 || s.Data[0].Key == "" {
			t.Errorf("%s read %+v", jobs.Items[i].Name, s.Data)
		}
		if where := platformName(); (s.DataSeconds != nil) != (where == "agent") {
			t.Errorf("on %s %s was held for %v seconds for data", where, jobs.Items[i].Name, s.DataSeconds)
		}
	}
	r := the.muster(t, append(line("digits@next"), "--", "true")...)
	if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "dataset digits has no branch, tag or commit next; it has main") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestDataIsItsNamespaces: by no name of another namespace's data can it be had.
func TestDataIsItsNamespaces(t *testing.T) {
	if the.counts || platformName() != "agent" {
		t.Skip("on one machine all namespaces have one store")
	}
	theirs, ours, folder := the.namespace(t), the.namespace(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "secret"), []byte("it is known\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"data", "create", "digits"}, {"data", "put", folder, "digits"}} {
		if r := the.muster(t, append([]string{"-n", theirs}, args...)...); r.Code != 0 {
			t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
	}
	if r := the.muster(t, "-n", theirs, "run", "--code", "none", "--image", the.image, "--checkpoints", "none", "--gpus", "1", "--data", "digits=/data", "--", "cat", "/data/secret"); r.Code != 0 {
		t.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	var jobs v1alpha1.TrainingJobList
	if err := the.api.List(t.Context(), &jobs, client.InNamespace(theirs)); err != nil || len(jobs.Items) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs.Items), err)
	}
	read := jobs.Items[0].Status.Data[0]
	pods := &corev1.PodList{}
	if err := the.api.List(t.Context(), pods, client.InNamespace(theirs)); err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	// A pod of ours that names what is in the cache of the very node.
	thief := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: thief, namespace: %s}, spec: {nodeName: %s, restartPolicy: Never,
		tolerations: [{operator: Exists}], containers: [{name: main, image: %s, command: [cat, /data/secret], volumeMounts: [{name: d, mountPath: /data}]}],
		volumes: [{name: d, csi: {driver: data.muster.dev, readOnly: true, volumeAttributes: {commit: "%s", key: "%s"}}}]}}`,
		ours, pods.Items[0].Spec.NodeName, the.image, read.Commit, read.Key)
	if r := the.kubectl(t, thief, "apply", "-f", "-"); r.Code != 0 {
		t.Fatalf("making a pod: %s%s", r.Stdout, r.Stderr)
	}
	refused := the.kubectl(t, "", "-n", ours, "wait", "pod/thief", "--for=jsonpath={.status.conditions[?(@.type=='muster.dev/Data')].reason}=Lost", "--timeout=50s")
	if refused.Code != 0 {
		r := the.kubectl(t, "", "-n", ours, "get", "pod", "thief", "-o", "yaml")
		t.Errorf("%s%s\n%s", refused.Stdout, refused.Stderr, r.Stdout)
	}
}

// TestDataIsFetchedAhead: what a job reads that waits for GPUs is on the nodes that it
// will get before they are free, so it holds none of them for that.
func TestDataIsFetchedAhead(t *testing.T) {
	if platformName() != "agent" {
		t.Skip("no agent fetches data ahead here")
	}
	ns, folder := the.namespace(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "x"), []byte("it is here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"data", "create", "digits"}, {"data", "put", folder, "digits"}} {
		if r := the.muster(t, append([]string{"-n", ns}, args...)...); r.Code != 0 {
			t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
		}
	}
	// 1. All GPUs are held, and a job that reads waits for two of them.
	the.submit(t, ns, "holder", "{roles: [{name: worker, replicas: 4, gpus: 1, command: [sleep, '100000']}]}")
	the.until(t, ns, "holder", v1alpha1.JobRunning)
	the.submit(t, ns, "reader", "{data: [{dataset: digits, branch: main, mount: /data}], roles: [{name: worker, gpus: 2, command: [cat, /data/x]}]}")
	the.until(t, ns, "reader", v1alpha1.JobWaiting)
	read := the.job(t, ns, "reader").Status.Data
	if len(read) != 1 {
		t.Fatalf("it reads %+v", read)
	}
	// 2. The data comes to both nodes, of which it will get one.
	pods := &corev1.PodList{}
	if err := the.api.List(t.Context(), pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for i := range pods.Items {
		nodes[pods.Items[i].Spec.NodeName] = true
	}
	for node := range nodes {
		look := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: look-%s, namespace: %s}, spec: {nodeName: %s, restartPolicy: Never, tolerations: [{operator: Exists}],
			containers: [{name: main, image: %s, command: [sh, -c, 'until grep -sh %s /fetched/*/note | grep -q "\"whole\":true"; do sleep 0.2; done'], volumeMounts: [{name: d, mountPath: /fetched}]}],
			volumes: [{name: d, hostPath: {path: /var/lib/kubelet/plugins/data.muster.dev/fetched}}]}}`, node, ns, node, the.image, read[0].Commit)
		if r := the.kubectl(t, look, "apply", "-f", "-"); r.Code != 0 {
			t.Fatalf("making a pod: %s%s", r.Stdout, r.Stderr)
		}
	}
	for node := range nodes {
		if r := the.kubectl(t, "", "-n", ns, "wait", "pod/look-"+node, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=50s"); r.Code != 0 {
			t.Fatalf("it is not fetched to %s: %s%s", node, r.Stdout, r.Stderr)
		}
	}
	if phase := the.job(t, ns, "reader").Status.Phase; phase != v1alpha1.JobWaiting {
		t.Fatalf("by now the job is %s: it was not fetched ahead", phase)
	}
	// 3. It starts, and reads what is there.
	if r := the.muster(t, "-n", ns, "delete", "holder"); r.Code != 0 {
		t.Fatalf("muster delete: %s", r.Stderr)
	}
	job := the.until(t, ns, "reader", v1alpha1.JobSucceeded)
	if s := job.Status.DataSeconds; s == nil || s.AsApproximateFloat64() > 10 {
		t.Errorf("it was held for %v seconds for data that is there", s)
	}
	t.Logf("held for data: %v s, %v GPU seconds", job.Status.DataSeconds, job.Status.DataGPUSeconds)
}

// platformName is what is tested.
func platformName() string {
	if name := os.Getenv("MUSTER_PLATFORM"); name != "" {
		return name
	}
	return "embedded"
}
