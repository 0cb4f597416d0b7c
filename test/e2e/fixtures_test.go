//go:build e2e

package e2e

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestOpensDataOfEarlierVersions opens a data folder that each released version
// wrote (test/fixtures): objects of every kind are read, data is what it was bit for
// bit, work that was stopped goes on, and new work runs.
func TestOpensDataOfEarlierVersions(t *testing.T) {
	kept, err := filepath.Glob(filepath.Join(harness.Root(), "test", "fixtures", "home-*.tar.zst"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("there is no data folder of an earlier version: %v", err)
	}
	for _, path := range kept {
		version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "home-"), ".tar.zst")
		t.Run(version, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			if err := unpackHome(path, home); err != nil {
				t.Fatal(err)
			}
			// Claims belong to the node that they were made on.
			m := &harness.Muster{Home: home, Host: "fixture"}
			t.Cleanup(m.Abandon)
			if err := m.Start(deadline(t, 3*time.Minute)); err != nil {
				t.Fatal(err)
			}
			hasEveryKind(t, m)
			dataIsAsItWas(t, m, strings.TrimSuffix(path, ".tar.zst")+".sums")
			workGoesOn(t, m)
			dataGoesOn(t, m)
			expect(t, m.Run(deadline(t, 2*time.Minute), "down", "--stop-jobs"), 0)
			for _, left := range harness.Processes(home) {
				t.Errorf("left running: %s", left)
			}
		})
	}
}

// unpackHome unpacks a data folder.
func unpackHome(path, home string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	packed, err := zstd.NewReader(file, zstd.WithDecoderMaxWindow(1<<27))
	if err != nil {
		return err
	}
	defer packed.Close()
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	in := tar.NewReader(packed)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackOne(in, header, home)
		}
		if err != nil {
			return err
		}
	}
}

func unpackOne(in io.Reader, header *tar.Header, home string) error {
	path := filepath.Join(home, header.Name)
	switch header.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		return os.Chmod(path, fs.FileMode(header.Mode))
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, path)
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(header.Mode))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chtimes(path, header.ModTime, header.ModTime))
}

// hasEveryKind looks for the objects that hack/make-fixture made.
func hasEveryKind(t *testing.T, m *harness.Muster) {
	t.Helper()
	ctx := deadline(t, time.Minute)
	for _, want := range []struct {
		list  client.ObjectList
		names []string
	}{
		{&v1alpha1.TrainingJobList{}, []string{"done", "failed", "held", "runs", "waits", "writer", "tensors", "torches"}},
		{&v1alpha1.GangList{}, []string{"runs", "waits"}},
		{&v1alpha1.QueueList{}, []string{"vision"}},
		{&v1alpha1.DatasetList{}, []string{"digits", "numbers", "numbers-double", "numbers-sum", "words"}},
		{&v1alpha1.PipelineList{}, []string{"numbers"}},
		{of(kubeflowv1.GroupVersion.String(), "TFJobList"), []string{"tensors"}},
		{of(kubeflowv1.GroupVersion.String(), "PyTorchJobList"), []string{"torches"}},
		{&corev1.NamespaceList{}, []string{"default", "team"}},
		{&corev1.ResourceQuotaList{}, []string{"gpus"}},
		{&corev1.ConfigMapList{}, []string{"settings"}},
		{&corev1.PersistentVolumeClaimList{}, []string{"kept", "done-checkpoints", "runs-checkpoints"}},
	} {
		have := namesOf(ctx, t, m, want.list)
		for _, name := range want.names {
			if have[name] == 0 {
				t.Errorf("there is no %s among the objects of %T: %v", name, want.list, have)
			}
		}
	}
	if runs := namesOf(ctx, t, m, &v1alpha1.PipelineRunList{}); len(runs) != 2 {
		t.Errorf("the runs of the pipeline are %v, want 2", runs)
	}
	for name, phase := range map[string]v1alpha1.JobPhase{"done": v1alpha1.JobSucceeded, "failed": v1alpha1.JobFailed, "held": v1alpha1.JobSuspended, "writer": v1alpha1.JobSucceeded, "tensors": v1alpha1.JobSucceeded} {
		waitPhase(t, m, "default", name, phase)
	}
	everyKindIsKept(t)
	objectsAreAsTheyWere(ctx, t, m)
	expect(t, m.Run(ctx, "logs", "done"), 0, "from 1")
	expect(t, m.Run(ctx, "logs", "failed"), 0, "it fails")
	expect(t, m.Run(ctx, "queue", "describe", "vision"), 0, "vision")
}

// everyKindIsKept looks that the fixtures' objects are of each kind that the chart defines: a kind
// that comes needs a fixture of the version that it comes with.
func everyKindIsKept(t *testing.T) {
	t.Helper()
	var kinds []string
	for _, folder := range []string{"crd", "kubeflow"} {
		files, err := filepath.Glob(filepath.Join(harness.Root(), "charts", "muster", folder, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			definition := struct {
				Spec struct{ Names struct{ Kind string } }
			}{}
			if err := yaml.Unmarshal(text, &definition); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kinds = append(kinds, definition.Spec.Names.Kind)
		}
	}
	slices.Sort(kinds)
	want := []string{"Dataset", "Gang", "Pipeline", "PipelineRun", "Placement", "PyTorchJob", "Queue", "TFJob", "TrainingJob"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("the kinds that the fixtures have, and those of the chart:\n%s", diff)
	}
}

// objectsAreAsTheyWere compares what objects say with what hack/make-fixture gave them.
func objectsAreAsTheyWere(ctx context.Context, t *testing.T, m *harness.Muster) {
	t.Helper()
	get := func(object client.Object, namespace, name string) {
		t.Helper()
		if err := m.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			t.Error(err)
		}
	}
	words, settings, gpus, vision := &v1alpha1.Dataset{}, &corev1.ConfigMap{}, &corev1.ResourceQuota{}, &v1alpha1.Queue{}
	get(words, "team", "words")
	get(settings, "team", "settings")
	get(gpus, "team", "gpus")
	get(vision, "", "vision")
	limit := gpus.Spec.Hard["requests.nvidia.com/gpu"]
	guaranteed := vision.Spec.Guaranteed["gpu"]
	got := []string{words.Spec.Description, words.Labels["owner"], settings.Data["answer"], limit.String(), guaranteed.String()}
	if diff := cmp.Diff([]string{"words of the team", "team", "42", "2", "3"}, got); diff != "" {
		t.Errorf("what objects say (-want +got):\n%s", diff)
	}
	runs := &v1alpha1.TrainingJob{}
	get(runs, "default", "runs")
	if runs.Spec.Queue != "vision" || len(runs.Spec.Roles) != 1 || runs.Spec.Roles[0].GPUs == nil || runs.Spec.Roles[0].GPUs.Value() != 2 {
		t.Errorf("the job that ran is %+v, want one role with 2 GPUs in the queue vision", runs.Spec)
	}
	expect(t, m.Run(ctx, "-n", "team", "data", "cat", "words:/words.txt"), 0, "words")
	expect(t, m.Run(ctx, "-n", "team", "data", "verify", "words"), 0)
}

func of(version, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind)
	return list
}

// namesOf counts the objects of a kind by name.
func namesOf(ctx context.Context, t *testing.T, m *harness.Muster, list client.ObjectList) map[string]int {
	t.Helper()
	if err := m.Client.List(ctx, list); err != nil {
		t.Fatalf("listing the objects of %T: %v", list, err)
	}
	names := map[string]int{}
	err := meta.EachListItem(list, func(object runtime.Object) error {
		found, err := meta.Accessor(object)
		if err == nil {
			names[found.GetName()]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// dataIsAsItWas fetches every version of every dataset and compares it with the
// sums that were written down when it was put.
func dataIsAsItWas(t *testing.T, m *harness.Muster, sums string) {
	t.Helper()
	ctx := deadline(t, 2*time.Minute)
	text, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, place, _ := strings.Cut(strings.TrimSpace(line), " ")
		version, path, found := strings.Cut(place, ":")
		if !found {
			t.Fatalf("%s has a line %q", sums, line)
		}
		if want[version] == nil {
			want[version] = map[string]string{}
		}
		want[version][path] = sum
	}
	if len(want) < 5 {
		t.Fatalf("%s has %d versions", sums, len(want))
	}
	for version, files := range want {
		dir := filepath.Join(t.TempDir(), "got")
		expect(t, m.Run(ctx, "data", "get", version, dir), 0)
		if diff := cmp.Diff(files, sumsOf(t, dir)); diff != "" {
			t.Errorf("%s is not what was put: %s", version, diff)
		}
	}
	for _, dataset := range []string{"digits", "numbers", "numbers-double", "numbers-sum"} {
		expect(t, m.Run(ctx, "data", "verify", dataset), 0)
	}
}

// sumsOf are the sums of all files of a folder, as hack/make-fixture writes them.
func sumsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		if entry.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			sums[name] = "link:" + target
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		if info, err := entry.Info(); err != nil || info.Mode()&0o100 != 0 {
			sum = "x:" + sum
		}
		sums[name] = sum
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// workGoesOn waits for what ran and what waited when the earlier Muster stopped,
// and runs something new.
func workGoesOn(t *testing.T, m *harness.Muster) {
	t.Helper()
	ctx := deadline(t, 4*time.Minute)
	if runs := waitPhase(t, m, "default", "runs", v1alpha1.JobSucceeded); runs.Status.Restarts != 0 {
		t.Errorf("what ran was restarted %d times", runs.Status.Restarts)
	}
	expect(t, m.Run(ctx, "logs", "runs"), 0, "from 2") // from its checkpoint
	waitPhase(t, m, "default", "waits", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "run", "--name", "new", "--gpus", "1", "--code", "none", "--", "echo", "is new"), 0, "is new")
	reader := `{"apiVersion": "muster.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "reader"}, "spec": {"checkpoints": {"none": true},
"volumes": [{"name": "kept", "claim": "kept", "mountPath": "kept"}], "roles": [{"name": "worker", "replicas": 1, "command": ["cat", "kept/note"]}]}}`
	file := filepath.Join(t.TempDir(), "reader.json")
	if err := os.WriteFile(file, []byte(reader), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, m.Run(ctx, "apply", "-f", file), 0)
	waitPhase(t, m, "default", "reader", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "logs", "reader"), 0, "written by")
	expect(t, m.Run(ctx, "resume", "held"), 0)
	waitPhase(t, m, "default", "held", v1alpha1.JobRunning)
	// The placement of what ran was read by the scheduler, which replaced it.
	if placements := namesOf(ctx, t, m, &v1alpha1.PlacementList{}); len(placements) == 0 {
		t.Error("a job runs, and there is no placement")
	}
}

// dataGoesOn closes the open commit, lists the access key, and puts a file that
// the pipeline computes.
func dataGoesOn(t *testing.T, m *harness.Muster) {
	t.Helper()
	ctx := deadline(t, 3*time.Minute)
	expect(t, m.Run(ctx, "data", "close", "digits@draft"), 0)
	expect(t, m.Run(ctx, "data", "cat", "digits@draft:/draft.txt"), 0, "draft")
	var keys []any
	if listed := m.Run(ctx, "data", "key", "list", "-o", "json"); json.Unmarshal([]byte(listed.Stdout), &keys) != nil || len(keys) != 1 {
		t.Errorf("the access keys are %+v, want one", listed)
	}
	dir := folder(t, map[string]string{"four": "4"})
	expect(t, m.Run(ctx, "data", "put", dir, "numbers"), 0)
	expect(t, m.Run(ctx, "pipeline", "wait", "numbers", "--timeout", "120s"), 0)
	// How much is taken from before depends on this machine's Python, too.
	if run := lastRun(t, m.Run(ctx, "pipeline", "runs", "numbers", "-o", "json")); run.Phase != "Succeeded" || run.Computed+run.Reused != 5 {
		t.Errorf("the run after a fourth number is %+v", run)
	}
	if model := m.Run(ctx, "data", "cat", "numbers-sum:/model"); strings.Join(strings.Fields(model.Stdout), " ") != "8 2 6 4" {
		t.Errorf("the pipeline made %q of four, one, three and two", model.Stdout)
	}
	expect(t, m.Run(ctx, "data", "verify", "numbers"), 0)
}
