//go:build embedded

package data_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestData runs the verbs against a real API server and a real store.
func TestData(t *testing.T) {
	server := rehearsal.Start(t)
	dir := t.TempDir()
	t.Chdir(dir)
	files(t, "images", map[string]string{"a.png": "a", "b.png": "b", "train/c.png": "c", "train/deep/d.txt": "d"})
	files(t, "more", map[string]string{"a.png": "A", "e.png": "e"})
	files(t, ".", map[string]string{"label.csv": "0,1\n", "broken.tar": "no archive"})
	t.Run("verbs", func(t *testing.T) { server.Run(t, verbs) })
	t.Run("what was got", checkGot)
	t.Run("a terminal's worth of JSON", func(t *testing.T) { checkJSON(t, server) })
	t.Run("paths that both changed", func(t *testing.T) { checkOpen(t, server) })
	t.Run("two who put at once", func(t *testing.T) { checkTwo(t, server) })
	t.Run("small packs", func(t *testing.T) { checkJoined(t, server) })
	t.Run("what is damaged", func(t *testing.T) { checkDamaged(t, server) })
}

// checkJoined puts three packs of 3 MB there, which a collection makes one object of once
// they are older than times may be wrong.
func checkJoined(t *testing.T, s *rehearsal.Server) {
	noise := make([]byte, 9<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	s.Run(t, []rehearsal.Step{{Args: "data create small", Says: "created"}})
	for i := range 3 {
		if code, _, errs := run(t.Context(), s, string(noise[i*3<<20:(i+1)*3<<20]), "data", "put", "-", fmt.Sprintf("small:/%d", i)); code != 0 {
			t.Fatal(errs)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var report struct{ Joined int }
	for report.Joined == 0 {
		code, out, errs := run(ctx, s, "", "data", "gc", "-o", "json")
		if code != 0 || json.Unmarshal([]byte(out), &report) != nil {
			t.Fatal(out, errs)
		}
	}
	bales, err := filepath.Glob(filepath.Join(filepath.Dir(s.Kubeconfig), "data", "store", "bales", "*"))
	if err != nil || report.Joined < 3 || len(bales) != 1 {
		t.Errorf("joined %d packs, and there are %q, %v", report.Joined, bales, err)
	}
	for i := range 3 {
		if code, out, errs := run(t.Context(), s, "", "data", "cat", fmt.Sprintf("small:/%d", i)); code != 0 || out != string(noise[i*3<<20:(i+1)*3<<20]) {
			t.Errorf("file %d: code %d, %d bytes, %s", i, code, len(out), errs)
		}
	}
	s.Run(t, []rehearsal.Step{{Args: "data verify small", Says: "nothing is damaged"}, {Args: "data gc", Says: "0 packs"}})
}

// checkDamaged changes a byte in each pack: what it hits is named, and not served.
func checkDamaged(t *testing.T, s *rehearsal.Server) {
	if code, _, errs := run(t.Context(), s, strings.Repeat("precious", 1000), "data", "put", "-", "shared:/precious"); code != 0 {
		t.Fatal(errs)
	}
	packs, err := filepath.Glob(filepath.Join(filepath.Dir(s.Kubeconfig), "data", "store", "packs", "*", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs: %q, %v", packs, err)
	}
	for _, pack := range packs {
		content, err := os.ReadFile(pack)
		if err != nil {
			t.Fatal(err)
		}
		content[9] ^= 1
		if err := os.WriteFile(pack, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := run(t.Context(), s, "", "data", "verify", "shared")
	if code != 1 || !strings.Contains(out, "packs/") || !strings.Contains(errs, "restore the objects from a copy, or put the files again") {
		t.Errorf("verify: code %d, %s%s", code, out, errs)
	}
	if code, out, errs := run(t.Context(), s, "", "data", "cat", "shared:/precious"); code != 1 || strings.Contains(out, "precious") || !strings.Contains(errs, "damaged") {
		t.Errorf("cat: code %d, %.40q, %s", code, out, errs)
	}
}

func files(t *testing.T, dir string, contents map[string]string) {
	t.Helper()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var verbs = []rehearsal.Step{
	{Args: "data ls", Says: "There are no datasets in namespace default"},
	{Args: "data ls digits", Code: 3, Says: "there is no dataset digits in namespace default; `muster data create digits` makes it"},
	{Args: "data create digits --description hand-written", Says: "dataset digits created"},
	{Args: "data create digits", Code: 1, Says: "there is a dataset digits already"},
	{Args: "data ls digts", Code: 3, Says: "did you mean digits?"},
	{Args: "data ls digits", Code: 3, Says: "dataset digits has no data yet"},
	{Args: "data log digits", Code: 3, Says: "has no data yet"},
	{Args: "data branch digits", Says: "has no branches yet"},
	{Args: "data put images digits -m first", Says: "4 added"},
	{Args: "data put images digits -m again", Says: "nothing has changed"},
	{Args: "data ls", Says: "digits   1         0     4      4 B"},
	{Args: "data ls digits", Says: "2 B   2      train/"},
	{Args: "data ls digits:/train", Says: "deep/"},
	{Args: "data ls -r digits", Says: "train/deep/d.txt"},
	{Args: "data ls digits:/*.png", Says: "b.png"},
	{Args: "data ls digits:/*.jpg", Code: 3, Says: "nothing matches"},
	{Args: "data ls digits:/tran", Code: 3, Says: "no such file or folder"},
	{Args: "data ls digits@mian", Code: 3, Says: "dataset digits has no branch, tag or commit mian; did you mean main?"},
	{Args: "data ls digits@elsewhere", Code: 3, Says: "dataset digits has no branch, tag or commit elsewhere; it has main"},
	{Args: "data ls digits@main~7", Code: 3, Says: "so many commits before main there is none"},
	{Args: "data cat digits:/train/c.png digits:/**/*.txt", Says: "cd"},
	{Args: "data cat digits:/train", Code: 2, Says: "train is a folder"},
	{Args: "data put more digits -m second", Says: "1 added, 1 changed"},
	{Args: "data put broken.tar digits --tar", Code: 1, Says: "broken.tar"},
	{Args: "data diff digits", Says: "~ a.png\n+ e.png (1 B)\n1 added, 1 changed, 0 removed"},
	{Args: "data diff digits@main~1:/train digits", Says: "0 added, 0 changed, 0 removed"},
	{Args: "data diff digits@main~1", Says: "4 added, 0 changed, 0 removed"},
	{Args: "data diff digits:/nowhere", Code: 3, Says: "neither version has"},
	{Args: "data log digits", Says: "second"},
	{Args: "data trace", Code: 2, Says: "trace which file?"},
	{Args: "data trace digits:/*.png", Code: 2, Says: "not a pattern"},
	{Args: "data trace digits --all", Code: 2, Says: "give --made, too"},
	{Args: "data trace digits:/nope.png", Code: 3, Says: "digits has no nope.png; `muster data ls digits` lists what there is"},
	{Args: "data trace digits@main~1:/a.png", Says: "ago: first"},
	{Args: "data trace digits:/train", Says: "digits:/train  2 files, 2 B"},
	{Args: "data trace digits:/a.png --made", Says: "nothing that branches and tags are at was made of digits:/a.png; --all looks"},
	{Args: "data trace digits:/no --made --all", Code: 3, Says: "digits has no no"},
	{Args: "data tag digits@main~1 v1", Says: "tag v1 is at"},
	{Args: "data tag digits v1", Code: 1, Says: "there is a tag v1 already"},
	{Args: "data branch digits v1", Code: 1, Says: "there is a tag v1 already: give the branch another name"},
	{Args: "data put more digits@v1", Code: 2, Says: "v1 is a tag, and does not move"},
	{Args: "data branch digits@v1 next", Says: "branch next is at"},
	{Args: "data put label.csv digits@next:/labels/", Says: "1 added"},
	{Args: "data cat digits@next:/labels/label.csv", Says: "0,1\n"},
	{Args: "data merge digits@next", Says: "next merged into main"},
	{Args: "data merge digits@next", Says: "nothing to be merged"},
	{Args: "data merge digits --into next", Says: "it moved to"},
	{Args: "data put images/b.png digits:/x", Says: "1 added"},
	{Args: "data put images/a.png digits@next:/x", Says: "1 added"},
	{Args: "data merge digits@next", Code: 1, Says: "both changed, differently:\n  x\nnothing was merged"},
	{Args: "data merge digits@next --prefer from", Says: "merged into main"},
	{Args: "data cat digits:/x", Says: "a"},
	{Args: "data rm digits:/*.png digits:/x", Says: "4 files removed"},
	{Args: "data rm digits:/*.png", Code: 3, Says: "nothing matches, and nothing was removed"},
	{Args: "data ls digits@main~1:/a.png", Says: "a.png"},
	{Args: "data put images digits:/train --mirror", Says: "4 added, 0 changed, 2 removed"},
	{Args: "data branch digits@v1 next --move", Says: "it was at"},
	{Args: "data branch digits nxt --delete", Code: 3, Says: "dataset digits has no branch nxt; did you mean next?"},
	{Args: "data branch digits next --delete", Says: "branch next deleted; it was at"},
	{Args: "data get digits@v1 first", Says: "first: 4 files, 4 B"},
	{Args: "data get digits@v1 first", Says: "first: 4 files, 4 B; 4 of them were there already"},
	{Args: "data get digits@v1:/train", Says: "train: 2 files"},
	{Args: "data get digits@v1:/**/*.png pngs", Says: "3 files"},
	{Args: "data get digits@v1:/a.png renamed.png", Says: "renamed.png: 1 file"},
	{Args: "data get digits@v1:/a.png first/", Says: "first/a.png: "},
	{Args: "data get digits@v1 label.csv", Code: 2, Says: "label.csv is a file, and what is to be written is a folder"},
	{Args: "data get digits@v1 v1.tar --tar", Says: "v1.tar: 4 files"},
	{Args: "data put v1.tar digits@back --tar", Says: "digits@back, a new branch, is at"},
	{Args: "data diff digits@v1 digits@back", Says: "0 added, 0 changed, 0 removed"},
	{Args: "data open", Code: 2, Says: "a commit of what?"},
	{Args: "data open digits extra", Code: 2, Says: "one branch at a time"},
	{Args: "data open digits:/train", Code: 2, Says: "leave out the path"},
	{Args: "data open digits@v1", Code: 2, Says: "v1 is a tag, and does not move"},
	{Args: "data open digts", Code: 3, Says: "did you mean digits?"},
	{Args: "data close digits", Code: 3, Says: "digits@main has no open commit"},
	{Args: "data close digits --discard", Code: 3, Says: "digits@main has no open commit"},
	{Args: "data close digits --discard -m no", Code: 2, Says: "--discard gives up what was put"},
	{Args: "data close digits --prefer mine", Code: 2, Says: "give into"},
	{Args: "data open digits", Says: "digits@main: a commit is open"},
	{Args: "data open digits", Code: 1, Says: "has an open commit already"},
	{Args: "data put label.csv digits:/open/", Says: "the open commit of digits@main is at"},
	{Args: "data put label.csv digits:/open/", Says: "nothing has changed: the open commit of digits@main"},
	{Args: "data put label.csv digits:/open/two.csv -m two", Says: "what -m says is not kept: say it to muster data close"},
	{Args: "data put label.csv digits:/open/three.csv", Says: "1 added"},
	{Args: "data rm digits:/open/three.csv -m three", Says: "what -m says is not kept: say it to muster data close"},
	{Args: "data rm digits:/open/two.csv", Says: "1 file removed; the open commit of digits@main is at"},
	{Args: "data ls digits:/open", Code: 3, Says: "no such file or folder"},
	{Args: "data branch digits", Says: "OPENED"},
	{Args: "data branch digits -o json", Says: "\"open\": {"},
	{Args: "data du digits", Says: "main (open commit)"},
	{Args: "data branch digits main --delete", Code: 1, Says: "branch main has an open commit: close or discard that first"},
	{Args: "data gc", Says: "freed"},
	{Args: "data verify digits", Says: "nothing is damaged"},
	{Args: "data close digits -m opened", Says: "1 added, 0 changed, 0 removed"},
	{Args: "data cat digits:/open/label.csv", Says: "0,1\n"},
	{Args: "data log digits", Says: "opened"},
	{Args: "data open digits -o json", Says: "\"commit\""},
	{Args: "data put label.csv digits:/open/label.csv -o json", Says: "\"open\": true"},
	{Args: "data put images/a.png digits:/open/label.csv -o json", Says: "\"changed\": 1"},
	{Args: "data close digits --discard", Says: "is given up; it was at"},
	{Args: "data open digits", Says: "a commit is open"},
	{Args: "data close digits -o json", Says: "\"unchanged\": true"},
	{Args: "data create later", Says: "created"},
	{Args: "data open later@next", Says: "later@next, a new branch: a commit is open"},
	{Args: "data ls later@next", Code: 3, Says: "later@next has no commits yet; one is open"},
	{Args: "data put images later@next", Says: "4 added"},
	{Args: "data branch later", Says: "next    -"},
	{Args: "data tag later@next next", Code: 3, Says: "one is open"},
	{Args: "data close later@next", Says: "4 added, 0 changed, 0 removed"},
	{Args: "data log later@next", Says: "What was put since 20"},
	{Args: "data rm later --yes", Says: "later"},
	{Args: "data verify digits", Says: "nothing is damaged"},
	{Args: "data du digits", Says: "digits   back    4      4 B"},
	{Args: "data gc --dry-run", Says: "would"},
	{Args: "data gc", Says: "freed"},
	{Args: "data verify", Says: "nothing is damaged"},
	{Args: "get datasets", Says: "digits"},
	{Args: "data key list", Says: "There are no access keys in namespace default"},
	{Args: "data key create", Says: "export AWS_SECRET_ACCESS_KEY="},
	{Args: "data key list", Says: "MU"},
	{Args: "data key create -n nowhere", Code: 3, Says: "there is no namespace nowhere"},
	{Args: "data key delete", Code: 2, Says: "delete which access key?"},
	{Args: "data key delete MUNONE", Code: 3, Says: "there is no access key MUNONE in namespace default"},
	{Args: "data key make", Code: 2, Says: "there are create, list, delete and adopt"},
}

// checkGot looks at what the verbs have written.
func checkGot(t *testing.T) {
	want := map[string]string{"a.png": "a", "b.png": "b", "train/c.png": "c", "train/deep/d.txt": "d"}
	for dir, want := range map[string]map[string]string{
		"first": want, "train": {"c.png": "c", "deep/d.txt": "d"}, "pngs": {"a.png": "a", "b.png": "b", "train/c.png": "c"},
	} {
		got := map[string]string{}
		if err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			got[name] = string(text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}
	}
	if text, err := os.ReadFile("renamed.png"); err != nil || string(text) != "a" {
		t.Errorf("renamed.png has %q, %v", text, err)
	}
	left, err := filepath.Glob(".muster-*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	archive, err := os.ReadFile("v1.tar")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	reader := tar.NewReader(bytes.NewReader(archive))
	for header, err := reader.Next(); err == nil; header, err = reader.Next() {
		names = append(names, header.Name)
	}
	if diff := cmp.Diff([]string{"a.png", "b.png", "train/c.png", "train/deep/d.txt"}, names); diff != "" {
		t.Error(diff)
	}
}

// run runs one command line.
func run(ctx context.Context, s *rehearsal.Server, in string, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	args = append(args, "--kubeconfig", s.Kubeconfig)
	exited := cli.Execute(ctx, args, terminal.Streams{In: strings.NewReader(in), Out: &stdout, Err: &stderr, NoColor: true})
	return int(exited), stdout.String(), stderr.String()
}

// checkJSON reads what verbs print for programs.
func checkJSON(t *testing.T, s *rehearsal.Server) {
	for _, args := range []string{
		"data ls -o json", "data ls digits -o json", "data diff digits -o json", "data log digits -o json", "data branch digits -o json",
		"data tag digits -o json", "data trace digits -o json", "data trace digits --made -o json", "data verify digits -o json", "data gc --dry-run -o json", "data du -o json",
		"data put images digits -o json", "data get digits@v1 first -o json",
	} {
		code, out, errs := run(t.Context(), s, "", strings.Fields(args)...)
		if code != 0 || !json.Valid([]byte(out)) || errs != "" {
			t.Errorf("muster %s: code %d, %s%s", args, code, out, errs)
		}
	}
	code, _, errs := run(t.Context(), s, "x,y\n", "data", "put", "-", "digits:/from/stdin.csv")
	if code != 0 {
		t.Error(errs)
	}
	if _, out, errs := run(t.Context(), s, "", "data", "cat", "digits:/from/stdin.csv"); out != "x,y\n" {
		t.Error(out, errs)
	}
	if code, _, errs := run(t.Context(), s, "", "data", "rm", "digits"); code != 2 || !strings.Contains(errs, "give --yes") {
		t.Error(code, errs)
	}
}

// checkOpen has the branch change what was put into its open commit, too.
func checkOpen(t *testing.T, s *rehearsal.Server) {
	put := func(text, to string) {
		t.Helper()
		if code, _, errs := run(t.Context(), s, text, "data", "put", "-", to); code != 0 {
			t.Fatal(errs)
		}
	}
	s.Run(t, []rehearsal.Step{{Args: "data create both", Says: "created"}})
	put("before", "both:/x")
	s.Run(t, []rehearsal.Step{{Args: "data branch both side", Says: "side"}, {Args: "data open both", Says: "open"}})
	put("open", "both:/x")
	put("branch", "both@side:/x")
	s.Run(t, []rehearsal.Step{
		{Args: "data merge both@side", Says: "it moved to"},
		{Args: "data close both", Code: 1, Says: "both@main changed the same paths, differently:\n  x\nit is open still"},
		{Args: "data close both --prefer from", Says: "0 added, 1 changed, 0 removed"},
		{Args: "data cat both:/x", Says: "open"},
	})
}

// checkTwo has several put into one branch at once: all of it is there, one
// commit after the other.
func checkTwo(t *testing.T, s *rehearsal.Server) {
	const writers = 4
	if code, _, errs := run(t.Context(), s, "", "data", "create", "shared"); code != 0 {
		t.Fatal(errs)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			code, _, errs := run(t.Context(), s, fmt.Sprint("by ", w), "data", "put", "-", fmt.Sprintf("shared:/file-%d", w))
			if code != 0 {
				t.Errorf("writer %d: %s", w, errs)
			}
		})
	}
	wg.Wait()
	for w := range writers {
		if _, out, errs := run(t.Context(), s, "", "data", "cat", fmt.Sprintf("shared:/file-%d", w)); out != fmt.Sprint("by ", w) {
			t.Errorf("writer %d: %q %s", w, out, errs)
		}
	}
	_, out, errs := run(t.Context(), s, "", "data", "log", "shared", "-o", "json")
	var commits []struct{ Commit string }
	if err := json.Unmarshal([]byte(out), &commits); err != nil || len(commits) != writers {
		t.Errorf("%d commits, %v: %s %s", len(commits), err, out, errs)
	}
	object := &v1alpha1.Dataset{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shared"}, object); err != nil {
		t.Fatal(err)
	}
	main := slices.IndexFunc(object.Spec.Branches, func(b v1alpha1.DatasetBranch) bool { return b.Name == v1alpha1.DefaultBranch })
	if main < 0 || object.Spec.Branches[main].Files != writers {
		t.Errorf("%+v", object.Spec)
	}
}
