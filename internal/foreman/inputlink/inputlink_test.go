package inputlink

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/osfile/meddler"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOf(t *testing.T) {
	p := Places{Folder: "/d/1", Mount: "/pfs"}
	for _, c := range []struct{ name, target, input, within string }{
		{"g", "/pfs/any/f", "any/f", ""},
		{"g", "/pfs//any/./f/", "any/f", ""},
		{"g", "/pfs/any", "any", ""},
		{"g", "/d/1/in/any/f", "any/f", ""},
		{"g", "../in/any/f", "any/f", ""},
		{"a/b/g", "../../../in/any", "any", ""},
		{"g", "/pfs/any/../../../etc/shadow", "any/../../../etc/shadow", ""}, // the input's root refuses it
		{"a/g", "/pfs/out/b/c", "", "../b/c"},
		{"g", "/d/1/out/b", "", "b"},
		{"a/g", "/pfs/out", "", "../."},
		{"g", "/pfs", "", ""}, {"g", "/d/1", "", ""}, {"g", "/d/1/in", "", ""}, {"g", "/d/1/log", "", ""}, {"g", "/d/10/in/any", "", ""},
		{"g", "/pfsx/any", "", ""}, {"g", "/etc/shadow", "", ""}, {"g", "any/f", "", ""}, {"g", "../log", "", ""}, {"g", "../in", "", ""},
		{"g", "a/../../in/any/f", "", ""}, {"a/g", "../in/any", "", ""}, {"g", "../../in/any/f", "", ""}, {"g", "", "", ""}, {"g", "/", "", ""},
	} {
		if input, within := p.Of(c.name, c.target); input != c.input || strings.TrimSuffix(within, ".") != strings.TrimSuffix(c.within, ".") {
			t.Errorf("%s -> %s: %q, %q", c.name, c.target, input, within)
		}
	}
	if input, within := (Places{}).Of("g", "/in/any/f"); input != "" || within != "" {
		t.Errorf("without places: %q, %q", input, within)
	}
	for _, name := range []string{"g", "a/b/g"} {
		if input, _ := (Places{}).Of(name, Plain(name, "any/f")); input != "any/f" {
			t.Errorf("%s travels as %s", name, Plain(name, "any/f"))
		}
	}
}

// datum is a folder of a datum with some input, and a file outside of it.
func datum(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	must(t, os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600))
	d := filepath.Join(top, "d")
	for path, text := range map[string]string{"in/any/f": "file", "in/any/deep/er/g": "g", "in/other/o": "other"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(d, path)), 0o755))
		must(t, os.WriteFile(filepath.Join(d, path), []byte(text), 0o644))
	}
	must(t, os.Mkdir(filepath.Join(d, "out"), 0o755))
	must(t, os.Symlink("f", filepath.Join(d, "in/any/l")))
	must(t, os.Symlink("er/g", filepath.Join(d, "in/any/deep/in")))
	return d
}

func made(t *testing.T, d string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root, err := os.OpenRoot(filepath.Join(d, "out"))
	must(t, err)
	defer func() { _ = root.Close() }()
	must(t, osfile.Walk(root, func(name string, in *os.Root, e fs.DirEntry) error {
		switch {
		case e.IsDir():
			out[name] = "/"
		case e.Type()&fs.ModeSymlink != 0:
			target, err := in.Readlink(e.Name())
			out[name] = "-> " + target
			return err
		default:
			text, err := osfile.ReadRegular(in, e.Name(), 1<<20)
			out[name] = string(text)
			return err
		}
		return nil
	}))
	return out
}

// TestSettle: a link to an input becomes its target, and any other stays or is refused.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		links map[string]string // D stands for the datum's folder
		want  map[string]string
		says  string
	}{
		"a file":            {map[string]string{"g": "D/in/any/f"}, map[string]string{"g": "file"}, ""},
		"at the mount":      {map[string]string{"g": "/pfs/any/f"}, map[string]string{"g": "file"}, ""},
		"relative":          {map[string]string{"a/g": "../../in/any/f"}, map[string]string{"a": "/", "a/g": "file"}, ""},
		"a link of it":      {map[string]string{"g": "/pfs/any/l"}, map[string]string{"g": "file"}, ""},
		"a folder":          {map[string]string{"g": "/pfs/any/deep"}, map[string]string{"g": "/", "g/er": "/", "g/er/g": "g", "g/in": "-> er/g"}, ""},
		"an input":          {map[string]string{"g": "/pfs/other"}, map[string]string{"g": "/", "g/o": "other"}, ""},
		"through a dot-dot": {map[string]string{"g": "/pfs/any/deep/../f"}, map[string]string{"g": "file"}, ""},
		"a chain":           {map[string]string{"g": "/pfs/any/f", "h": "g", "i": "/pfs/out/h"}, map[string]string{"g": "file", "h": "-> g", "i": "-> h"}, ""},
		"within":            {map[string]string{"a/g": "D/out/a/h", "b": "nowhere"}, map[string]string{"a": "/", "a/g": "-> ../a/h", "b": "-> nowhere"}, ""},
		"elsewhere":         {map[string]string{"g": "/etc/shadow", "h": "../../secret"}, map[string]string{"g": "-> /etc/shadow", "h": "-> ../../secret"}, ""},
		"by dots":           {map[string]string{"g": "/pfs/any/../../../secret"}, nil, "path escapes"},
		"to another input":  {map[string]string{"g": "/pfs/any/../other/o"}, nil, "path escapes"},
		"to nothing":        {map[string]string{"g": "/pfs/any/none"}, nil, "no such file"},
		"to no input":       {map[string]string{"g": "/pfs/none/f"}, nil, `input "none", which is not there`},
		"a pipe":            {map[string]string{"g": "/pfs/any/pipe"}, nil, "which is a pipe"},
		"a planted link":    {map[string]string{"g": "/pfs/any/planted"}, nil, "path escapes"},
		"a folder with one": {map[string]string{"g": "/pfs/any"}, nil, "leads out of the folder"},
		"an input replaced": {map[string]string{"g": "/pfs/swapped/secret"}, nil, "which is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			d := datum(t)
			if c.says != "" {
				must(t, os.Symlink("../../../secret", filepath.Join(d, "in/any/planted")))
				must(t, os.Symlink("../..", filepath.Join(d, "in/swapped")))
				if strings.Contains(c.says, "pipe") {
					must(t, unix.Mkfifo(filepath.Join(d, "in/any/pipe"), 0o600))
				}
			}
			for at, target := range c.links {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(d, "out", at)), 0o755))
				must(t, os.Symlink(strings.Replace(target, "D", d, 1), filepath.Join(d, "out", at)))
			}
			err := Settle(d, Places{Folder: d, Mount: "/pfs"})
			if c.says != "" {
				if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			must(t, err)
			if diff := cmp.Diff(c.want, made(t, d)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNoBytes: a settled file is the input's own.
func TestNoBytes(t *testing.T) {
	d := datum(t)
	must(t, os.Symlink("/pfs/any/f", filepath.Join(d, "out/g")))
	must(t, Settle(d, Places{Mount: "/pfs"}))
	one, err := os.Stat(filepath.Join(d, "in/any/f"))
	must(t, err)
	other, err := os.Lstat(filepath.Join(d, "out/g"))
	must(t, err)
	if !os.SameFile(one, other) {
		t.Error("it is a copy")
	}
}

// TestPlainly: links travel, except those to inputs that the program has changed.
func TestPlainly(t *testing.T) {
	d := datum(t)
	for at, target := range map[string]string{"same": "/pfs/any/f", "folder": "/pfs/any/deep", "changed": "/pfs/other/o", "touched": "/pfs/other", "gone": "/pfs/any/none"} {
		must(t, os.Symlink(target, filepath.Join(d, "out", at)))
	}
	var since time.Time
	last := osfile.Stamp{}
	for n := 0; n < 2; { // until the file system's clock has gone on
		probe := filepath.Join(d, "probe")
		must(t, os.WriteFile(probe, nil, 0o600))
		info, err := os.Stat(probe)
		must(t, err)
		if stamp := osfile.StampOf(info); stamp.Ctime != last.Ctime {
			last, since, n = stamp, time.Unix(0, stamp.Ctime), n+1
		}
	}
	must(t, os.WriteFile(filepath.Join(d, "in/other/o"), []byte("new"), 0o644))
	err := Plainly(d, Places{Mount: "/pfs"}, since)
	if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
	must(t, os.RemoveAll(filepath.Join(d, "out/gone")))
	must(t, Plainly(d, Places{Mount: "/pfs"}, since))
	want := map[string]string{"same": "-> ../in/any/f", "folder": "-> ../in/any/deep", "changed": "new", "touched": "/", "touched/o": "new"}
	if diff := cmp.Diff(want, made(t, d)); diff != "" {
		t.Error(diff)
	}
}

// TestMeddled: a program that still runs changes the target of a link. Nothing outside of the input
// comes into the output.
func TestMeddled(t *testing.T) {
	d := datum(t)
	m := meddler.Start(t, filepath.Join(d, "in/any"), "x")
	settled := 0
	for n := 0; settled < 50 && n < 200_000; n++ {
		must(t, os.RemoveAll(filepath.Join(d, "out/g")))
		must(t, os.Symlink("/pfs/any/x", filepath.Join(d, "out/g")))
		if Settle(d, Places{Mount: "/pfs"}) != nil {
			continue
		}
		settled++
		for name, text := range made(t, d) {
			if text != "/" && !strings.HasPrefix(text, "-> ") && meddler.Leaked(text) {
				t.Fatalf("%s has %q", name, text)
			}
		}
	}
	m.Untouched(t)
	if settled < 50 {
		t.Errorf("it was settled %d times: too few to show anything", settled)
	}
}
