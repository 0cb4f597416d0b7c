package foreman_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// factsOf is a datum of a group over two inputs, one of whose paths is not UTF-8.
func factsOf(foreman.Datum) shift.Facts {
	return shift.Facts{ID: "f00d", Inputs: []shift.InputFacts{
		{Input: "in", Commit: "c1", Path: []byte("1-C\xff.txt"), GroupBy: []byte("C\xff")},
		{Input: "Big-Sales_2", Commit: "c2", JoinOn: []byte("x")},
	}}
}

// facts opens a work whose datum has facts.
func (s *shop) facts(p shift.Program) *foreman.Work {
	s.Helper()
	w, err := s.Open(s.Context(), foreman.Spec{
		Name: "run.stage", Program: p, Tries: 1, Fetch: s.fetch, Record: s.record, Facts: factsOf, Datums: []foreman.Datum{{ID: "0", Name: "a"}},
	})
	if err != nil {
		s.Fatal(err)
	}
	return w
}

// TestFacts: a program gets the facts about its datum, whether it shares the foreman's folder or
// its files are carried; it gets Pachyderm's variables only if it is a program for that.
func TestFacts(t *testing.T) {
	ours := []string{
		"MUSTER_DATUM_BIG_SALES_2_COMMIT=c2", "MUSTER_DATUM_BIG_SALES_2_JOIN_ON=x", "MUSTER_DATUM_BIG_SALES_2_PATH=",
		"MUSTER_DATUM_ID=f00d", "MUSTER_DATUM_IN_COMMIT=c1", "MUSTER_DATUM_IN_GROUP_BY=C\xff", "MUSTER_DATUM_IN_PATH=1-C\xff.txt", "MUSTER_RUN_ID=the-run",
	}
	for name, c := range map[string]struct{ carried, pachyderm bool }{
		"shared": {false, false}, "carried": {true, false}, "shared, as Pachyderm": {false, true}, "carried, as Pachyderm": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			p := shell("")
			// No shell: not each of them keeps variables that it cannot name.
			p.Command = []string{"python3", "-c", `import os; open(os.environb[b"MUSTER_OUTPUT"] + b"/made", "wb").write(b"".join(sorted(k + b"=" + v + b"\n" for k, v in os.environb.items() if k.startswith((b"MUSTER_DATUM_", b"MUSTER_RUN_ID", b"PACH_", b"in", b"Big-Sales_2")))))`}
			p.Run, p.Carried, p.Pachyderm = "the-run", c.carried, c.pachyderm
			want := ours
			if c.pachyderm {
				p.Mount = t.TempDir()
				want = append([]string{"Big-Sales_2=" + p.Mount + "/Big-Sales_2", "Big-Sales_2_COMMIT=c2"}, ours...)
				want = append(want, "PACH_DATUM_Big-Sales_2_JOIN_ON=x", "PACH_DATUM_ID=f00d", "PACH_DATUM_in_GROUP_BY=C\xff",
					"PACH_JOB_ID=the-run", "PACH_OUTPUT_COMMIT_ID=the-run", "in="+p.Mount+"/in/1-C\xff.txt", "in_COMMIT=c1")
			}
			w := s.facts(p)
			var err error
			if c.carried {
				err = s.remote(t.Context(), s.Post("run.stage"), "0")
			} else {
				err = s.worker(t.Context(), "0")
			}
			if err != nil {
				t.Fatal(err)
			}
			s.over(w)
			if diff := cmp.Diff(strings.Join(want, "\n")+"\n", s.recorded["a"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFactsOfBatch: a program in batch mode gets the facts about its datum with the datum.
func TestFactsOfBatch(t *testing.T) {
	s := open(t)
	p := shell(`d=$($MUSTER_NEXT); out=$(echo "$d" | sed 's/.*"output":"\([^"]*\)".*/\1/'); echo "$d" > $out/made; $MUSTER_NEXT`)
	p.Batch = true
	w := s.facts(p)
	if err := s.worker(t.Context(), "0"); err != nil {
		t.Fatal(err)
	}
	s.over(w)
	var handed struct{ Variables map[string]string }
	if err := json.Unmarshal([]byte(s.recorded["a"]), &handed); err != nil {
		t.Fatalf("%q: %v", s.recorded["a"], err)
	}
	if got := handed.Variables; got["MUSTER_DATUM_ID"] != "f00d" || got["MUSTER_DATUM_BIG_SALES_2_JOIN_ON"] != "x" || got["PACH_DATUM_ID"] != "" {
		t.Errorf("it was told %v", got)
	}
}
