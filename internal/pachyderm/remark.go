package pachyderm

import "strings"

// Remark is what is said about a field of a specification.
type Remark struct {
	// Pipeline is the name of the pipeline as the specification has it; where
	// it has none, "specification 2" for the second of the file.
	Pipeline string
	// Field is the path of the field, as the specification spells it:
	// transform.acceptReturnCode, input.cross[1].pfs.glob.
	Field string
	// Text is what is wrong or different, and what to do.
	Text string
}

// String is the remark as a line.
func (r Remark) String() string { return r.Pipeline + ": " + r.Field + ": " + r.Text }

// RefusedError is returned for specifications that cannot be honoured as they are.
type RefusedError struct {
	// Remarks are all reasons, in the order of the file.
	Remarks []Remark
}

// Error names every reason, one a line.
func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Remarks))
	for i, r := range e.Remarks {
		lines[i] = r.String()
	}
	return strings.Join(lines, "\n")
}
