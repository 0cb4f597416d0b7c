package worker

import (
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// Names of the variables with the facts about a datum. Those of an input have the input's name
// between envFacts and one of the endings.
const (
	envID    = "MUSTER_DATUM_ID"
	envRun   = "MUSTER_RUN_ID"
	envFacts = "MUSTER_DATUM_"

	endPath    = "_PATH"
	endCommit  = "_COMMIT"
	endJoinOn  = "_JOIN_ON"
	endGroupBy = "_GROUP_BY"
)

// Names of Pachyderm 2, which contain the names of inputs unchanged.
const (
	pachydermID     = "PACH_DATUM_ID"
	pachydermJob    = "PACH_JOB_ID"
	pachydermOutput = "PACH_OUTPUT_COMMIT_ID"
	pachydermFacts  = "PACH_DATUM_"
)

// told returns the variables with the facts about a datum.
func told(p *shift.Program, d *shift.Datum) []string {
	if d.Facts.ID == "" {
		return nil
	}
	var out []string
	if p.Pachyderm {
		out = pachyderm(p, d)
	}
	out = append(out, envID+"="+d.Facts.ID, envRun+"="+p.Run)
	for i := range d.Facts.Inputs {
		of := &d.Facts.Inputs[i]
		name := envFacts + strings.TrimPrefix(InputVariable(of.Input), envInput)
		out = append(out, name+endPath+"="+string(of.Path), name+endCommit+"="+of.Commit)
		out = appendMatch(out, name, of)
	}
	return out
}

// pachyderm are the variables that Pachyderm 2 sets for a datum, in its order: of one name
// the last one counts. A run's identity is that of its output's commit, as there.
func pachyderm(p *shift.Program, d *shift.Datum) []string {
	var out []string
	for i := range d.Facts.Inputs {
		of := &d.Facts.Inputs[i]
		out = append(out, of.Input+"="+filepath.Join(p.Mount, of.Input, string(of.Path)), of.Input+endCommit+"="+of.Commit)
		out = appendMatch(out, pachydermFacts+of.Input, of)
	}
	return append(out, pachydermID+"="+d.Facts.ID, pachydermJob+"="+p.Run, pachydermOutput+"="+p.Run)
}

// appendMatch adds the values of a join and a group, under names that begin so.
func appendMatch(out []string, name string, of *shift.InputFacts) []string {
	if len(of.JoinOn) > 0 {
		out = append(out, name+endJoinOn+"="+string(of.JoinOn))
	}
	if len(of.GroupBy) > 0 {
		out = append(out, name+endGroupBy+"="+string(of.GroupBy))
	}
	return out
}
