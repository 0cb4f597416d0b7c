package describe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestReads(t *testing.T) {
	job := &v1alpha1.TrainingJob{}
	job.Spec.Data = []v1alpha1.JobData{
		{Dataset: "digits", Mount: "/data"},
		{Dataset: "digits", Version: "v1", Path: "/train/", Mount: "in"},
		{Dataset: "words", Branch: "next", Mount: "/words"},
		{Dataset: "web", Mount: "/web"},
	}
	job.Status.Data = []v1alpha1.JobDataStatus{
		{Dataset: "digits", Mount: "/data", Commit: v1alpha1.DatasetCommit(strings.Repeat("3f", 32)), Key: "k", Files: 2, Bytes: 6},
		{Dataset: "digits", Mount: "in", Commit: v1alpha1.DatasetCommit(strings.Repeat("ab", 32))},
		{Dataset: "web", Mount: "/web", Commit: v1alpha1.DatasetCommit(strings.Repeat("cd", 32)), Lazy: true, Files: 3, Bytes: 9e12},
	}
	want := []string{
		"digits@main, commit 3f3f3f3f3f3f, 2 files of 6 B, at /data",
		"digits@v1:/train, commit abababababab, at in",
		"words@next, at /words",
		"web@main, commit cdcdcdcdcdcd, 3 files of 8.2 TiB read as they are asked for, at /web",
	}
	if diff := cmp.Diff(want, reads(job)); diff != "" {
		t.Error(diff)
	}
}
