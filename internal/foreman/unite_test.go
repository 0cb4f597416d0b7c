package foreman_test

import (
	"errors"
	"testing"

	"github.com/muster-dev/muster/internal/foreman"
)

// Two members that write something else to one path are named, with the path.
func TestClash(t *testing.T) {
	for name, c := range map[string]struct{ one, other, path string }{
		"contents":          {`echo 1 > $OUT/model`, `echo 2 > $OUT/model`, "model"},
		"lengths":           {`echo 1 > $OUT/model`, `echo 12 > $OUT/model`, "model"},
		"a program":         {`echo 1 > $OUT/model`, `echo 1 > $OUT/model; chmod +x $OUT/model`, "model"},
		"a file, a folder":  {`echo 1 > $OUT/model`, `mkdir $OUT/model; echo 1 > $OUT/model/a`, "model"},
		"a file and a link": {`echo 1 > $OUT/a; echo 1 > $OUT/b`, `echo 1 > $OUT/a; ln -s a $OUT/b`, "b"},
		"links":             {`ln -s a $OUT/b`, `ln -s c $OUT/b`, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent()
			for member, line := range map[string]string{"ps/0": c.one, "worker/0": c.other} {
				if code, says := s.runs(pod{member: member, name: member}, line); code != 0 {
					t.Fatalf("%s: %d: %s", member, code, says)
				}
			}
			var clash *foreman.ClashError
			if err := w.Unite(t.Context(), nil); !errors.As(err, &clash) || clash.Path != c.path || clash.One != "ps/0" || clash.Other != "worker/0" {
				t.Errorf("%v, want a clash of ps/0 and worker/0 at %s", err, c.path)
			}
		})
	}
}
