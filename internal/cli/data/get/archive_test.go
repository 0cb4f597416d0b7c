package get

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestEveryTree: an archive has the files, folders and links of its commit.
func TestEveryTree(t *testing.T) {
	_, set := open(t)
	for m := range crafted.Trees(t, 20, 200) {
		packed, err := crafted.Pack(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Put(t.Context(), "main", data.Tar(bytes.NewReader(packed)), data.PutOptions{AddOptions: data.AddOptions{Replace: true}}); err != nil {
			t.Fatal(err)
		}
		out, err := archived(t, set, "main")
		if err != nil {
			t.Fatal(err)
		}
		got, err := crafted.Unpack(out)
		if says := crafted.Differ(m, got); err != nil || says != "" {
			t.Fatalf("%v is archived %s, %v", m, says, err)
		}
	}
}

// TestHostileTrees: no archive has an entry that tar would unpack elsewhere.
func TestHostileTrees(t *testing.T) {
	for name, c := range map[string]struct {
		list []crafted.Entry
		says string
	}{
		"a path out":            {[]crafted.Entry{{Path: "../x", Content: "1"}}, `part ".."`},
		"the machine's":         {[]crafted.Entry{{Path: "/etc/x", Content: "1"}}, "begins with a slash"},
		"a link out":            {[]crafted.Entry{{Path: "a", Target: "../x"}}, "out of the tree"},
		"an absolute link":      {[]crafted.Entry{{Path: "a", Target: "/etc"}}, "out of the tree"},
		"an entry below a link": {[]crafted.Entry{{Path: "a", Target: "b"}, {Path: "a/x", Content: "1"}, {Path: "b/x", Content: "2"}}, "is a file or link"},
		"a link out over another link": {
			[]crafted.Entry{{Path: "a/b/c", Content: "1"}, {Path: "a/b/up", Target: "../.."}, {Path: "z", Target: "a/b/up/../x"}}, "over another link",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bytes, set := open(t)
			stored, err := crafted.Store(t.Context(), bytes, -1, -1, c.list...)
			if err == nil {
				err = stored.Contents(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err := archived(t, set, stored.ID.String())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if out.Len() > 0 {
				t.Errorf("%d bytes were written before the refusal", out.Len())
			}
		})
	}
}

func open(t *testing.T) (backend.Backend, *data.Dataset) {
	t.Helper()
	bytes := &backend.Memory{}
	store, err := data.Open(t.Context(), data.Options{Backend: bytes, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return bytes, store.Dataset(&ref.Memory{})
}

func archived(t *testing.T, set *data.Dataset, reference string) (*bytes.Buffer, error) {
	t.Helper()
	view, err := set.At(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	bar := meter.New(io.Discard, "Getting")
	defer bar.Stop()
	var out bytes.Buffer
	err = pack(t.Context(), &out, view, address.Address{}, "", bar, &Document{})
	return &out, err
}
