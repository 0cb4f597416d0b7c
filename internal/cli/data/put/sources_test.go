package put

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/cli/exit"
)

func TestSources(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"images", "other/images"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.csv", "b.csv", "other/a.csv", "data.tar"} {
		if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		options options
		args    string
		want    []source
		says    string // the words of a refusal
	}{
		{name: "a folder", args: "images digits", want: []source{{folder, "images", ""}}},
		{name: "a folder to a path", args: "images/ digits:/train", want: []source{{folder, "images/", "train"}}},
		{name: "this folder", args: ". digits:/train", want: []source{{folder, ".", "train"}}},
		{name: "a file", args: "a.csv digits", want: []source{{file, "a.csv", "a.csv"}}},
		{name: "a file to a name", args: "a.csv digits:/x/y.csv", want: []source{{file, "a.csv", "x/y.csv"}}},
		{name: "a file into a folder", args: "a.csv digits:/x/", want: []source{{file, "a.csv", "x/a.csv"}}},
		{name: "several", args: "a.csv images digits:/x", want: []source{{file, "a.csv", "x/a.csv"}, {folder, "images", "x/images"}}},
		{name: "a name with a sign", args: `a.csv digits:/x\*`, want: []source{{file, "a.csv", "x*"}}},
		{name: "standard input", args: "- digits:/x.csv", want: []source{{stream, "", "x.csv"}}},
		{name: "an archive", options: options{tar: true}, args: "data.tar digits:/x", want: []source{{archive, "data.tar", "x"}}},
		{name: "an archive from standard input", options: options{tar: true}, args: "- digits", want: []source{{archive, "", ""}}},
		{name: "a folder like another", options: options{mirror: true}, args: "images digits:/x", want: []source{{folder, "images", "x"}}},

		{name: "two of a name", args: "a.csv other/a.csv digits", says: "a.csv and other/a.csv would both be a.csv"},
		{name: "two folders of a name", args: "images other/images digits", says: "would both be images"},
		{name: "a file like another", options: options{mirror: true}, args: "a.csv digits", says: "--mirror makes a folder"},
		{name: "two folders like one", options: options{mirror: true}, args: "images other digits", says: "give one"},
		{name: "a device", args: "/dev/null digits", says: "/dev/null is neither a file nor a folder"},
		{name: "standard input without a name", args: "- digits:/x/", says: "standard input has no name"},
		{name: "standard input among others", args: "- a.csv digits", says: "give - alone"},
		{name: "a folder as an archive", options: options{tar: true}, args: "images digits", says: "leave out --tar"},
		{name: "a pattern", args: "images digits:/*", says: "a pattern says where nothing can be put"},
		{name: "to a commit", args: "images digits@main~2", says: "a commit cannot be changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := c.options.read(strings.Fields(c.args))
			if c.says != "" {
				if code, _ := exit.Of(err); code != exit.Misuse || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(source{})); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}
