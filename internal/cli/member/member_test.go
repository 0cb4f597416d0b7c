package member

import (
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/exit"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		name        string
		words       []string
		job, member string
		wrong       bool
	}{
		{"a job", []string{"mnist"}, "mnist", "", false},
		{"a job and a member", []string{"mnist", "worker-0"}, "mnist", "worker-0", false},
		{"in one word", []string{"mnist/worker-0"}, "mnist", "worker-0", false},
		{"twice", []string{"mnist/worker-0", "worker-1"}, "", "", true},
		{"no member", []string{"mnist/"}, "", "", true},
		{"no job", []string{"/worker-0"}, "", "", true},
		{"too deep", []string{"vision/mnist/worker-0"}, "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			job, member, err := Words(c.words)
			if code, _ := exit.Of(err); (code == exit.Misuse) != c.wrong || job != c.job || member != c.member {
				t.Errorf("Words(%q) = %q, %q, %v", c.words, job, member, err)
			}
		})
	}
}

func TestNoneNamesWhatThereIs(t *testing.T) {
	for want, names := range map[string][]string{
		"mnist has no member worker-7: it has worker-0; did you mean worker-0?":                           {"worker-0"},
		"mnist has no member worker-7: it has a, b, c, d, e, f, g, h, and 2 more; did you mean worker-1?": {"a", "b", "c", "d", "e", "f", "g", "h", "i", "worker-1"},
	} {
		if got := None("mnist", "worker-7", names).Error(); got != want {
			t.Errorf("None says %q, want %q", got, want)
		}
	}
}

// TestAnotherKind: a pod is no training job, and is not looked for as one.
func TestAnotherKind(t *testing.T) {
	_, err := Job(t.Context(), nil, "team", "pod/web-1")
	if code, _ := exit.Of(err); code != exit.Misuse || !strings.Contains(err.Error(), "`muster describe pod/web-1` shows an object of any kind") {
		t.Errorf("%d: %v", code, err)
	}
}
