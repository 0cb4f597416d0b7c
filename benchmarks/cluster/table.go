package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	what, measured string
	// target is what is asked for; empty where the figure is there to be
	// compared.
	target string
	met    bool
	note   string
}

// table is what is printed in the end.
type table struct{ rows []row }

// add adds a figure that is there to be compared.
func (t *table) add(what, measured, note string) {
	t.rows = append(t.rows, row{what: what, measured: measured, note: note})
}

// check adds a figure with a target.
func (t *table) check(what, measured, target string, met bool, note string) {
	t.rows = append(t.rows, row{what: what, measured: measured, target: target, met: met, note: note})
}

func (t *table) write(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "what\tmeasured\ttarget\tmet\tcompare")
	for _, r := range t.rows {
		met := "-"
		switch {
		case r.target == "":
			r.target = "-"
		case r.met:
			met = "yes"
		default:
			met = "NO"
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", r.what, r.measured, r.target, met, r.note)
	}
	return out.Flush()
}
