package departure

import "testing"

// FuzzParse: a sign that is taken is read as the same when it is written.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"karpenter.sh/disrupted", "condition:Ready/KubeletStopped=25s", "condition:=1h", "a=1ns", "=5s", "condition:A/B/C", "condition:/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(s.String()); err != nil || again != s {
			t.Fatalf("%q is %+v, written as %q and read as %+v, %v", text, s, s, again, err)
		}
	})
}
