package osfile

import "testing"

// TestUnescape: paths with spaces and backslashes in mountinfo.
func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `/a\134b`: `/a\b`, `/a\9`: `/a\9`, "/plain": "/plain"} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}
