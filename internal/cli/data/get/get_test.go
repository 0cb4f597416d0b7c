package get

import (
	"os"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/data/address"
)

func TestPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("there", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("taken", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, address string
		file          bool
		to, want      string
		says          string // the words of a refusal
	}{
		{name: "a dataset", address: "digits", want: "digits"},
		{name: "a folder", address: "digits:/train/deep", want: "deep"},
		{name: "a pattern", address: "digits:/train/**/*.png", want: "train"},
		{name: "a pattern at the top", address: "digits:/*.png", want: "digits"},
		{name: "a folder into one", address: "digits:/train", to: "there", want: "there"},
		{name: "a folder where there is none", address: "digits:/train", to: "new/one", want: "new/one"},
		{name: "a folder where a file is", address: "digits:/train", to: "taken", says: "taken is a file, and what is to be written is a folder"},
		{name: "a file", address: "digits:/train/a.png", file: true, want: "a.png"},
		{name: "a file of a strange name", address: `digits:/a\*.png`, file: true, want: "a*.png"},
		{name: "a file into a folder", address: "digits:/train/a.png", file: true, to: "there", want: "there/a.png"},
		{name: "a file into a folder that is made", address: "digits:/train/a.png", file: true, to: "new/", want: "new/a.png"},
		{name: "a file to a name", address: "digits:/train/a.png", file: true, to: "b.png", want: "b.png"},
		{name: "a file in place of one", address: "digits:/train/a.png", file: true, to: "taken", want: "taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := address.Parse(c.address)
			if err != nil {
				t.Fatal(err)
			}
			got, err := place(a, c.file, c.to)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}
