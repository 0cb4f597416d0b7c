package run

import (
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestWorkersIsANumberOrARange(t *testing.T) {
	for text, want := range map[string]workers{
		"8":     {least: 8, most: 8},
		"1..8":  {least: 1, most: 8, ranged: true},
		"8..8":  {least: 8, most: 8},
		"-1":    {least: -1, most: -1},
		"4..1":  {least: 4, most: 1, ranged: true},
		"":      {},
		"1..":   {},
		"..8":   {},
		"1...8": {},
		"1-8":   {},
		"a..b":  {},
	} {
		var got workers
		err := got.Set(text)
		if got != want || (err != nil) != (want == workers{}) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		if err == nil && !strings.HasPrefix(text, got.String()) {
			t.Errorf("%q is written %q", text, got.String())
		}
		if err != nil && !strings.Contains(err.Error(), "1..8") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRangeOfWorkers(t *testing.T) {
	job := build(t, Flags{Workers: pointer(8), MinWorkers: pointer(2), GPUs: "1", Command: []string{"true"}}, inputs())
	r := job.Spec.Roles[0]
	if job.Spec.Framework != v1alpha1.FrameworkNone || r.MinReplicas == nil || *r.MinReplicas != 2 || *r.Replicas != 8 || r.Name != "worker" {
		t.Errorf("%s, %+v", job.Spec.Framework, r)
	}
	for _, c := range []struct {
		flags Flags
		want  string
	}{
		{Flags{Workers: pointer(1), MinWorkers: pointer(4)}, "--workers 4..1: give a range from 1 up"},
		{Flags{Workers: pointer(4), MinWorkers: pointer(0)}, "--workers 0..4: give a range from 1 up"},
		{Flags{Workers: pointer(4000), MinWorkers: pointer(1)}, "--workers 4000: give a whole number from 0 to 1000"},
		{Flags{Workers: pointer(4), MinWorkers: pointer(1), PS: pointer(1)}, "cannot come and go"},
		{Flags{Workers: pointer(4), MinWorkers: pointer(1), Framework: "tensorflow"}, "cannot come and go"},
		{Flags{Workers: pointer(4), MinWorkers: pointer(1), Framework: "jax"}, "there is TensorFlow, PyTorch and None"},
	} {
		c.flags.Command = []string{"true"}
		if _, err := Build(c.flags, inputs()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
