package ls

import (
	"encoding/json"
	"testing"

	"github.com/muster-dev/muster/internal/data"
)

// TestExactNames: JSON keeps the bytes of names that are not UTF-8.
func TestExactNames(t *testing.T) {
	for _, c := range []struct{ path, target, want string }{
		{"a/ä.png", "", `{"path":"a/ä.png","kind":"file","bytes":0}`},
		{"a/\xe4.png", "", `{"path":"a/\ufffd.png","pathBytes":"YS/kLnBuZw==","kind":"file","bytes":0}`},
		{"l", "\xff", `{"path":"l","targetBytes":"/w==","kind":"file","bytes":0,"target":"\ufffd"}`},
	} {
		e := data.Entry{}
		e.Path, e.Target = c.path, c.target
		text, err := json.Marshal(entryOf(e))
		if err != nil {
			t.Fatal(err)
		}
		var got, want Entry
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if want.Path != got.Path || string(want.PathBytes) != string(got.PathBytes) || string(want.TargetBytes) != string(got.TargetBytes) {
			t.Errorf("%q is %s, want %s", c.path, text, c.want)
		}
		if got.PathBytes != nil && string(got.PathBytes) != c.path {
			t.Errorf("%q has the bytes %q", c.path, got.PathBytes)
		}
	}
}

func TestInternal(t *testing.T) {
	for name, want := range map[string]bool{"muster-results": true, "muster-state-digits": true, "digits": false, "digits-train": false, "muster": false} {
		if internal(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
