package facts

import (
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Of returns the facts about a datum. Inputs are the commits of the stage's sources, by
// index.
func Of(d *pipeline.Datum, inputs []commit.Commit) shift.Facts {
	out := shift.Facts{ID: d.Files.String()}
	at := map[string]int{}
	for i := range d.Given {
		g := &d.Given[i]
		of := shift.InputFacts{Input: g.Input, Path: []byte(g.Path), JoinOn: []byte(g.JoinOn), GroupBy: []byte(g.GroupBy)}
		if g.Source < len(inputs) {
			of.Commit = inputs[g.Source].ID.String()
		}
		if k, known := at[g.Input]; known {
			out.Inputs[k] = of
			continue
		}
		at[g.Input] = len(out.Inputs)
		out.Inputs = append(out.Inputs, of)
	}
	return out
}
