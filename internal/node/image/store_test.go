package image

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestNobodyAnswers: whoever asks a containerd that does not run is told what to do.
func TestNobodyAnswers(t *testing.T) {
	s, err := Open(Options{Socket: filepath.Join(t.TempDir(), "containerd.sock"), Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	_, checked := s.Check(t.Context())
	for name, err := range map[string]error{"looking for it": checked, "asking it": s.hold(t.Context(), "pod")} {
		if err == nil || !strings.Contains(err.Error(), "start it") && !strings.Contains(err.Error(), "start containerd") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := words(errors.New("anything else")); got != "anything else" {
		t.Errorf("words of what is no answer: %q", got)
	}
}
