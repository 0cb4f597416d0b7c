package volume

import "testing"

func TestResolve(t *testing.T) {
	view := View{Links: []Link{{At: "/p/root/checkpoints", To: "/volumes/c/checkpoints"}}}
	for value, want := range map[string]string{
		"/p/root/checkpoints":          "/volumes/c/checkpoints",
		"/p/root/checkpoints/model-1":  "/volumes/c/checkpoints/model-1",
		"/p/root/checkpoints-of-a-kin": "/p/root/checkpoints-of-a-kin",
		"--dir=/p/root/checkpoints":    "--dir=/p/root/checkpoints",
		"":                             "",
	} {
		if got := view.Resolve(value); got != want {
			t.Errorf("Resolve(%q) = %q, want %q", value, got, want)
		}
	}
}
