//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// put is what `muster data put -o json` prints.
type put struct {
	Commit                  string
	Added, Changed, Removed int64
	Files, Bytes            int64
	SeenBytes, StoredBytes  int64
}

// dataOf runs a verb of muster data that prints JSON.
func dataOf[T any](t *testing.T, r harness.Result) T {
	t.Helper()
	expect(t, r, 0)
	var out T
	if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	return out
}

// TestDataInVersions takes one dataset through all verbs.
func TestDataInVersions(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 180*time.Second)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns, "data"}, args...)...)
	}
	files := map[string]string{"labels.csv": "0,7\n1,3\n", "train/empty": "", "train/long": strings.Repeat("abcdefgh", 200_000)}
	for i := range 500 {
		files[fmt.Sprintf("train/%d.txt", i)] = fmt.Sprint("digit ", i, "\n")
	}
	dir := folder(t, files)

	// 1. What there is not yet.
	expect(t, muster("ls", "digits"), 3, "there is no dataset digits")
	expect(t, muster("put", dir, "digits"), 3, "muster data create digits")
	expect(t, muster("create", "digits", "--description", "made by hand"), 0, "dataset digits created")
	expect(t, muster("create", "digits"), 1, "there is a dataset digits already")
	expect(t, muster("ls", "digits"), 3, "main")

	// 2. A folder, in and out.
	first := dataOf[put](t, muster("put", dir, "digits", "-m", "the first", "-o", "json"))
	if first.Added != 503 || first.Changed != 0 || first.Files != 503 || len(first.Commit) != 64 {
		t.Errorf("%+v", first)
	}
	expect(t, muster("ls", "digits"), 0, "labels.csv", "train/")
	expect(t, muster("ls", "-r", "digits:/train/1?.txt"), 0, "train/10.txt", "train/19.txt")
	expect(t, muster("cat", "digits:/train/42.txt"), 0, "digit 42\n")
	same(t, dir, gotten(t, muster, "digits"))
	expect(t, m.Kubectl(ctx, "", "-n", ns, "get", "datasets"), 0, "digits", "503", "main")

	// 3. The same again is no commit; a change is a small one.
	again := dataOf[put](t, muster("put", dir, "digits", "-o", "json"))
	if again.Commit != first.Commit || again.StoredBytes != 0 {
		t.Errorf("nothing has changed, and it is %+v", again)
	}
	write(t, dir, "labels.csv", "0,7\n1,3\n2,9\n")
	write(t, dir, "test/0.txt", "new\n")
	second := dataOf[put](t, muster("put", dir, "digits", "-m", "one label more", "-o", "json"))
	if second.Added != 1 || second.Changed != 1 || second.Removed != 0 || second.StoredBytes > 100_000 {
		t.Errorf("%+v", second)
	}
	expect(t, muster("diff", "digits@main~1", "digits"), 0, "labels.csv", "test/0.txt", "1 added, 1 changed, 0 removed")
	expect(t, muster("log", "digits"), 0, "one label more", "the first", second.Commit[:12], first.Commit[:12])
	same(t, dir, gotten(t, muster, "digits"))
	expect(t, muster("cat", "digits@"+first.Commit+":/labels.csv"), 0, "0,7\n1,3\n")
	expect(t, muster("cat", "digits:/train/no.txt"), 3, "train/no.txt")

	// 4. A tag stays, branches part and come together again.
	expect(t, muster("tag", "digits@"+first.Commit[:12], "v1"), 0, "v1")
	expect(t, muster("tag", "digits", "v1"), 1, "there is a tag v1 already")
	expect(t, muster("branch", "digits@v1", "next"), 0, "next")
	other := folder(t, map[string]string{"train/500.txt": "digit 500\n"})
	expect(t, muster("put", other, "digits@next", "-m", "one more"), 0, "1 added")
	expect(t, muster("branch", "digits"), 0, "main", "next")
	expect(t, muster("merge", "digits@next"), 0, "merged")
	expect(t, muster("cat", "digits:/train/500.txt"), 0, "digit 500\n")
	expect(t, muster("cat", "digits:/test/0.txt"), 0, "new\n")
	conflict := folder(t, map[string]string{"labels.csv": "other\n"})
	expect(t, muster("put", conflict, "digits@next", "-m", "differently"), 0)
	expect(t, muster("put", folder(t, map[string]string{"labels.csv": "mine\n"}), "digits"), 0)
	expect(t, muster("merge", "digits@next"), 1, "labels.csv")

	// 5. What is removed is in the versions before.
	expect(t, muster("rm", "digits:/train/*.txt", "-m", "too many"), 0, "501 files removed")
	expect(t, muster("ls", "digits:/train"), 0, "long")
	expect(t, muster("rm", "digits:/train/*.txt"), 3, "nothing matches")
	expect(t, muster("cat", "digits@main~1:/train/7.txt"), 0, "digit 7\n")
	expect(t, muster("branch", "digits", "next", "--delete"), 0)

	// 6. By archive and by standard input.
	archived := m.Command(ctx, "-n", ns, "data", "get", "digits@v1", "-", "--tar")
	archive := filepath.Join(t.TempDir(), "v1.tar")
	out, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	archived.Stdout = out
	if err := archived.Run(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, muster("branch", "digits@v1", "archived"), 0)
	expect(t, muster("rm", "digits@archived:/train", "--yes"), 0)
	back := dataOf[put](t, muster("put", archive, "digits@archived", "--tar", "-o", "json"))
	if back.Added != 502 || back.Changed != 0 {
		t.Errorf("%+v", back)
	}
	expect(t, muster("diff", "digits@v1", "digits@archived"), 0, "0 added, 0 changed, 0 removed")

	// 7. All of it is whole; what nothing names goes.
	expect(t, muster("verify", "digits"), 0, "nothing is damaged")
	expect(t, muster("du"), 0, "digits")
	expect(t, muster("gc", "--dry-run"), 0, "would")
	expect(t, muster("gc"), 0)
	expect(t, muster("verify"), 0, "nothing is damaged")
	expect(t, muster("rm", "digits"), 2, "--yes")
	expect(t, muster("rm", "digits", "--yes"), 0, "dataset digits removed")
	expect(t, muster("ls", "digits"), 3, "there is no dataset digits")
}

// TestDataAfterKill9 kills a put in its middle: the branch is where it was, all
// of it is whole, and the next put finds what the one before has stored.
func TestDataAfterKill9(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 180*time.Second)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns, "data"}, args...)...)
	}
	expect(t, muster("create", "noise"), 0)
	expect(t, muster("put", folder(t, map[string]string{"a": "before\n"}), "noise"), 0)
	packs := stored(t, m)

	noise := make([]byte, 160<<20)
	source := rand.NewChaCha8([32]byte{1})
	if _, err := io.ReadFull(source, noise); err != nil {
		t.Fatal(err)
	}
	put1 := m.Command(ctx, "-n", ns, "data", "put", "-", "noise:/big")
	in, err := put1.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	put1.Stderr = &said
	if err := put1.Start(); err != nil {
		t.Fatal(err)
	}
	// It is given a part, waits for the rest, and is killed once it has stored
	// something.
	if _, err := in.Write(noise[:120<<20]); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	harness.Eventually(t, 60*time.Second, "waiting until something of it is stored", func() error {
		if now := stored(t, m); now <= packs {
			return fmt.Errorf("%d packs", now)
		}
		return nil
	})
	if err := put1.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = put1.Wait()

	expect(t, muster("ls", "noise"), 0, "a")
	expect(t, muster("cat", "noise:/big"), 3)
	expect(t, muster("verify", "noise"), 0, "nothing is damaged")
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, noise, 0o644); err != nil {
		t.Fatal(err)
	}
	second := dataOf[put](t, muster("put", big, "noise", "-o", "json"))
	if second.SeenBytes != int64(len(noise)) || second.StoredBytes > int64(len(noise))-16<<20 {
		t.Errorf("what was stored before the kill was stored again: %+v", second)
	}
	to := filepath.Join(t.TempDir(), "out")
	expect(t, muster("get", "noise:/big", to), 0)
	got, err := os.ReadFile(to)
	if err != nil || !bytes.Equal(got, noise) {
		t.Errorf("it came back different: %d bytes, %v", len(got), err)
	}
	expect(t, muster("rm", "noise", "--yes"), 0)
}

// stored counts the packs in the store.
func stored(t testing.TB, m *harness.Muster) (packs int) {
	t.Helper()
	_ = filepath.WalkDir(filepath.Join(m.Home, "data", "store", "packs"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			packs++
		}
		return nil
	})
	return packs
}

// gotten gets a dataset into a new folder.
func gotten(t *testing.T, muster func(...string) harness.Result, what string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "got")
	expect(t, muster("get", what, to), 0)
	return to
}

// same compares two folders, byte for byte.
func same(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(texts(t, want), texts(t, got)); diff != "" {
		t.Errorf("the folders differ (-want +got):\n%s", diff)
	}
}

func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// write replaces a file of a folder.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
