package parcel

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contents are the files, folders and links below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name := strings.TrimPrefix(path, folder+"/")
		switch {
		case e.IsDir():
			out[name+"/"] = ""
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			out[name] = "-> " + target
			return err
		default:
			text, err := os.ReadFile(path)
			info, _ := e.Info()
			out[name] = string(text)
			if info.Mode()&0o100 != 0 {
				out[name] += " (program)"
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestThereAndBack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	long := strings.Repeat("n", 200) + "/" + strings.Repeat("m", 200)
	for path, text := range map[string]string{"log": "said", "out/a": "1", "out/deep/er/b": "", "out/" + long: "far", "secret": "stays"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Mkdir(filepath.Join(from, "out/empty"), 0o700), os.Symlink("../a", filepath.Join(from, "out/deep/link")),
		os.Symlink("nowhere", filepath.Join(from, "out/dangling")), os.Chmod(filepath.Join(from, "out/a"), 0o711))
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := Write(&stream, from, "log", "out", "absent"); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(stream.Bytes())
	if err := Read(&stream, to, Limits{}, "log", "out"); err != nil {
		t.Fatal(err)
	}
	want := contents(t, from)
	delete(want, "secret")
	if diff := cmp.Diff(want, contents(t, to)); diff != "" {
		t.Error(diff)
	}
	// Cut anywhere it is broken, and not taken for a smaller one.
	for cut := 0; cut < len(whole)-1536; cut += 100 {
		err := Read(bytes.NewReader(whole[:cut]), t.TempDir(), Limits{}, "log", "out")
		var refused *Refusal
		if err == nil || errors.As(err, &refused) {
			t.Fatalf("cut at %d of %d: %v", cut, len(whole), err)
		}
	}
}

func TestNotSent(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "out/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(io.Discard, folder, "out"); err == nil || !strings.Contains(err.Error(), "out/pipe is neither") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(folder, "out/pipe")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(folder, "out"))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := Write(io.Discard, folder, "out"); err == nil || !strings.Contains(err.Error(), "out/socket is neither") {
		t.Errorf("%v", err)
	}
}

func TestRefused(t *testing.T) {
	file := func(name string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 1, Mode: 0o600}
	}
	link := func(name, target string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	for name, c := range map[string]struct {
		headers []*tar.Header
		says    string
	}{
		"another name":          {[]*tar.Header{file("token")}, "none of what is expected"},
		"out of the folder":     {[]*tar.Header{file("../x")}, `the part ".."`},
		"out by the middle":     {[]*tar.Header{file("out/../../x")}, `the part ".."`},
		"absolute":              {[]*tar.Header{file("/etc/x")}, "begins with a slash"},
		"no name":               {[]*tar.Header{file("out//x")}, "empty part"},
		"a long part":           {[]*tar.Header{file("out/" + strings.Repeat("x", 300))}, "a part of 300 bytes"},
		"a long path":           {[]*tar.Header{file("out" + strings.Repeat("/xxxxxxxxxx", 500))}, "bytes: at most"},
		"a hard link":           {[]*tar.Header{file("out/a"), {Typeflag: tar.TypeLink, Name: "out/b", Linkname: "out/a"}}, "a hard link"},
		"a device":              {[]*tar.Header{{Typeflag: tar.TypeBlock, Name: "out/b", Devmajor: 8}}, "a device"},
		"a pipe":                {[]*tar.Header{{Typeflag: tar.TypeFifo, Name: "out/p"}}, "a pipe"},
		"a link out":            {[]*tar.Header{link("out/l", "../../etc/passwd")}, "out of the tree"},
		"an absolute link":      {[]*tar.Header{link("out/l", "/etc/passwd")}, "out of the tree"},
		"the folder a link":     {[]*tar.Header{link("out", "elsewhere")}, "has to be a file or a folder"},
		"a link below a link":   {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "out/b/"}, link("out/a/c/d", "../../b"), link("out/a/c/d/x", "../../..")}, "comes twice"},
		"through a link":        {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "out/d/"}, link("out/l", "d"), file("out/l/x")}, "comes twice"},
		"twice":                 {[]*tar.Header{file("out/a"), file("out/a")}, "out/a comes twice"},
		"below a file":          {[]*tar.Header{file("out/a"), file("out/a/b")}, "below what is no folder"},
		"too many bytes":        {[]*tar.Header{file("out/a"), file("out/b"), file("out/c"), file("out/d")}, "more than 3 bytes"},
		"too many of them":      {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "out/"}, link("out/1", "x"), link("out/2", "x"), link("out/3", "x"), link("out/4", "x")}, "more than 4 files"},
		"a size that is a lie":  {[]*tar.Header{{Typeflag: tar.TypeReg, Name: "out/big", Size: 4}}, "more than 3 bytes"},
		"fewer than none":       {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "out/", Size: -1 << 40, Format: tar.FormatGNU}}, "0 or more"},
		"a folder in the place": {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "log/"}, file("log")}, "comes twice"},
	} {
		t.Run(name, func(t *testing.T) {
			var stream bytes.Buffer
			w := tar.NewWriter(&stream)
			for _, h := range append(c.headers, &tar.Header{Typeflag: tar.TypeReg, Name: end}) {
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(make([]byte, max(0, h.Size))); err != nil {
					t.Fatal(err)
				}
			}
			outside := t.TempDir()
			inside := filepath.Join(outside, "inside")
			if err := os.Mkdir(inside, 0o755); err != nil {
				t.Fatal(err)
			}
			err := Read(&stream, inside, Limits{Bytes: 3, Entries: 4}, "log", "out")
			var refused *Refusal
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want words with %q", err, c.says)
			}
			if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
				t.Errorf("it wrote outside: %v, %v", list, err)
			}
		})
	}
}

// What tar's own writer would not write.
func TestNUL(t *testing.T) {
	r := &reader{names: []string{"out"}}
	if _, err := r.check(&tar.Header{Typeflag: tar.TypeReg, Name: "out/a\x00b"}); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("%v", err)
	}
	if _, err := r.check(&tar.Header{Typeflag: tar.TypeSymlink, Name: "out/a", Linkname: "b\x00c"}); err == nil {
		t.Error("a link with NUL is taken")
	}
}

// Links are bounded by what they need in memory, and whoever has the disk is asked
// before anything is laid out.
func TestLimits(t *testing.T) {
	from := t.TempDir()
	err := os.Mkdir(filepath.Join(from, "out"), 0o755)
	for i := range 10 {
		err = errors.Join(err, os.Symlink("made", filepath.Join(from, "out", fmt.Sprint(i))))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(from, "out", "made"), make([]byte, 5000), 0o600))
	var stream bytes.Buffer
	if err = errors.Join(err, Write(&stream, from, "out")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	for name, test := range map[string]struct {
		limits Limits
		says   string
	}{
		"links":  {Limits{Links: 89}, "links have more than 89 bytes"},
		"enough": {Limits{Links: 90, Take: func(int64) error { return nil }}, ""},
		"a disk": {Limits{Take: func(n int64) error {
			if n > block {
				return full
			}
			return nil
		}}, "making room for out/made: full"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			err := Read(bytes.NewReader(stream.Bytes()), to, test.limits, "out")
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("error %v, want %q", err, test.says)
			}
			if _, there := os.Lstat(filepath.Join(to, "out", "made")); errors.Is(err, full) && there == nil {
				t.Error("it was laid out before there was room")
			}
		})
	}
}

// What folders and links say of their size is not believed: nothing comes of it.
func TestSizes(t *testing.T) {
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "out/", Size: 1 << 50, Format: tar.FormatGNU},
		{Typeflag: tar.TypeSymlink, Name: "out/l", Linkname: "x", Size: 1<<63 - 1, Format: tar.FormatGNU},
		{Typeflag: tar.TypeReg, Name: end},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	var taken []int64
	limits := Limits{Take: func(n int64) error {
		taken = append(taken, n)
		return nil
	}}
	if err := Read(&stream, t.TempDir(), limits, "out"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{block, block}, taken); diff != "" {
		t.Error(diff)
	}
}

// TestGiven: links to inputs become the files that the reader gives, which count; other links out
// are refused.
func TestGiven(t *testing.T) {
	give := func(to *os.Root, name, input string, take func(int64) error) error {
		if err := take(3); err != nil {
			return err
		}
		file, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = file.WriteString(input)
		return errors.Join(err, file.Close())
	}
	link := func(name, target string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	for name, c := range map[string]struct {
		headers []*tar.Header
		says    string
		want    map[string]string
	}{
		"given":         {[]*tar.Header{link("out/a/g", "../../in/any/f"), link("out/l", "a/g")}, "", map[string]string{"out/": "", "out/a/": "", "out/a/g": "any/f", "out/l": "-> a/g"}},
		"not an input":  {[]*tar.Header{link("out/g", "../log")}, "out of the tree", nil},
		"by a name":     {[]*tar.Header{link("out/g", "a/../../in/any/f")}, "out of the tree", nil},
		"of the folder": {[]*tar.Header{link("out", "../in/any")}, "has to be a file or a folder", nil},
		"twice":         {[]*tar.Header{{Typeflag: tar.TypeReg, Name: "out/g"}, link("out/g", "../in/any/f")}, "comes twice", nil},
		"below it":      {[]*tar.Header{link("out/g", "../in/any"), {Typeflag: tar.TypeReg, Name: "out/g/x"}}, "comes twice", nil},
		"too much":      {[]*tar.Header{link("out/g", "../in/any/f"), link("out/h", "../in/any/f")}, "more than 5 bytes, together with the files of inputs", nil},
		"too many":      {[]*tar.Header{link("out/g", "../in/any/f"), link("out/h", "../in/any/f"), link("out/i", "x"), link("out/j", "x")}, "more than 5 files, together with the files of inputs", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var stream bytes.Buffer
			w := tar.NewWriter(&stream)
			for _, h := range append(c.headers, &tar.Header{Typeflag: tar.TypeReg, Name: end}) {
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
			}
			folder := t.TempDir()
			err := Read(&stream, folder, Limits{Bytes: 5, Entries: 5, Given: give}, "out")
			var refused *Refusal
			if c.says != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.says)) || c.says == "" && err != nil {
				t.Errorf("%v, want words with %q", err, c.says)
			}
			if diff := cmp.Diff(c.want, contents(t, folder)); c.want != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}
