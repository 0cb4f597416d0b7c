package facts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/pipeline"
)

func TestOf(t *testing.T) {
	inputs := []commit.Commit{{ID: digest.Of([]byte("one"))}, {ID: digest.Of([]byte("two"))}}
	d := &pipeline.Datum{Files: digest.Of([]byte("files")), Given: []pipeline.Given{
		{Source: 0, Input: "images", Path: "1.png", GroupBy: "1"},
		{Source: 0, Input: "images", Path: "\xff.png", GroupBy: "1"},
		{Source: 1, Input: "labels", JoinOn: "x"},
	}}
	want := shift.Facts{ID: d.Files.String(), Inputs: []shift.InputFacts{
		{Input: "images", Commit: inputs[0].ID.String(), Path: []byte("\xff.png"), JoinOn: []byte{}, GroupBy: []byte("1")},
		{Input: "labels", Commit: inputs[1].ID.String(), Path: []byte{}, JoinOn: []byte("x"), GroupBy: []byte{}},
	}}
	if diff := cmp.Diff(want, Of(d, inputs)); diff != "" {
		t.Error(diff)
	}
}
