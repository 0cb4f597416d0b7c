//go:build e2e

package box

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// identity: a job has the numbers, the groups, the home and the mask of its user.
func (b *box) identity(t *testing.T) {
	r := b.job(t, b.ben, "identity", `id -u; id -g; id -G; umask; echo "$HOME"; echo kept > "$HOME/by-the-job"; grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status`)
	groups := b.shell(t, b.ben, "id -G")
	want := fmt.Sprintf("%d\n%d\n%s0077\n%s\n", b.ben.uid, b.ben.gid, groups.Stdout, b.ben.home)
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, want) {
		t.Errorf("ben's job is %+v, want %q", r, want)
	}
	for _, line := range []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"} {
		if !strings.Contains(r.Stdout, line) {
			t.Errorf("no %q in %s", line, r.Stdout)
		}
	}
}

// wheels serves a package, whose text is the next one at each request; the last one stays.
func wheels(t *testing.T, texts ...string) (url string, asked *atomic.Int32, last []byte) {
	t.Helper()
	asked = &atomic.Int32{}
	var files [][]byte
	for _, text := range texts {
		files = append(files, harness.Wheel(t, "words", "1", "WORD = '"+text+"'\n"))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := int(asked.Add(1)) - 1
		_, _ = w.Write(files[min(n, len(files)-1)])
	}))
	t.Cleanup(server.Close)
	return server.URL + "/words-1-py3-none-any.whl", asked, files[len(files)-1]
}

// environments: what ben builds is not ann's, unless each file has the hash that she names.
func (b *box) environments(t *testing.T) {
	const read = `python -c 'import words; print(words.WORD, words.__file__)'`
	const poison = `f=$(python -c 'import words; print(words.__file__)'); rm -f "$f"; echo "WORD = 'poisoned'" > "$f"; rm -rf "$(dirname "$f")/__pycache__"; true`
	url, asked, _ := wheels(t, "poisoned", "good")
	requirements := func(p person, text string) string { return p.write(t, "requirements.txt", text) }
	if r := b.job(t, b.ben, "first", read, "--requirements", requirements(b.ben, "words @ "+url+"\n")); !strings.Contains(r.Stdout, "poisoned") {
		t.Fatalf("ben's own environment: %+v", r)
	}
	if r := b.job(t, b.ann, "second", read, "--requirements", requirements(b.ann, "words @ "+url+"\n")); !strings.Contains(r.Stdout, "good") || asked.Load() != 2 {
		t.Errorf("ann's environment after %d requests: %+v", asked.Load(), r)
	}
	url, asked, wheel := wheels(t, "same")
	pinned := fmt.Sprintf("words @ %s --hash=sha256:%x\n", url, sha256.Sum256(wheel))
	if r := b.job(t, b.ben, "pinned", read+"; "+poison, "--requirements", requirements(b.ben, pinned)); !strings.Contains(r.Stdout, "same") {
		t.Fatalf("an environment by hash: %+v", r)
	}
	if r := b.job(t, b.ann, "pinned", read, "--requirements", requirements(b.ann, pinned)); !strings.Contains(r.Stdout, "same") || asked.Load() != 1 {
		t.Errorf("the same by ann after %d requests: %+v", asked.Load(), r)
	}
	script := fmt.Sprintf("for d in %s/environments/*; do touch $d/x && echo crossed; done; for d in %[1]s/environments; do touch $d/x && echo crossed; done; true", b.Home)
	if r := b.job(t, b.ben, "writes", script); strings.Contains(r.Stdout, "crossed") {
		t.Errorf("ben writes below environments: %+v", r)
	}
}

// s3 asks for ann's data by the S3 gateway.
func (b *box) s3(t *testing.T) {
	key := func(p person) (k struct{ AccessKey, AccessKeyID, SecretKey, SecretAccessKey string }) {
		r := b.as(t, p, "data", "key", "create", "-o", "json")
		if r.Code != 0 {
			t.Fatalf("%+v", r)
		}
		must(t, json.Unmarshal([]byte(r.Stdout), &k))
		return k
	}
	var state struct{ State struct{ S3 string } }
	must(t, json.Unmarshal([]byte(b.Run(deadline(t, time.Minute), "status", "-o", "json").Stdout), &state))
	object := strings.TrimSuffix(state.State.S3, "/") + "/corpus/main/table.csv"
	ask := func(p person, user string) harness.Result {
		return b.shell(t, p, fmt.Sprintf("curl -s -H x-amz-content-sha256:%x %s %s", sha256.Sum256(nil), user, object))
	}
	with := func(p person) string {
		k := key(p)
		return fmt.Sprintf("--aws-sigv4 aws:amz:us-east-1:s3 --user %s%s:%s%s", k.AccessKey, k.AccessKeyID, k.SecretKey, k.SecretAccessKey)
	}
	if r := ask(b.ann, with(b.ann)); r.Stdout != secrets["data"] {
		t.Fatalf("ann's own data: %+v", r)
	}
	for _, user := range []string{"", with(b.ben), "--aws-sigv4 aws:amz:us-east-1:s3 --user AKIDNONE:none"} {
		r := ask(b.ben, user)
		keeps(t, "S3 "+user, r)
		if !strings.Contains(r.Stdout, "<Code>") {
			t.Errorf("S3 with %q: %+v", user, r)
		}
	}
	if r := b.as(t, b.ben, "data", "key", "list"); strings.Contains(r.Stdout, key(b.ann).AccessKeyID) && key(b.ann).AccessKeyID != "" {
		t.Errorf("ben lists keys of ann: %+v", r)
	}
}

// record: what root does is recorded, in a file of root's.
func (b *box) record(t *testing.T) {
	if r := b.Run(deadline(t, time.Minute), "-n", b.ben.namespace(), "kubectl", "annotate", "namespace", b.ben.namespace(), "muster.dev/try=recorded"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	found, err := filepath.Glob(filepath.Join(b.Home, "audit*.log"))
	must(t, err)
	if len(found) == 0 {
		entries, _ := os.ReadDir(b.Home)
		t.Fatalf("no record in %v", entries)
	}
	data, err := os.ReadFile(found[0])
	must(t, err)
	if !strings.Contains(string(data), `"verb":"patch"`) || !strings.Contains(string(data), b.ben.namespace()) {
		t.Errorf("the record has no change of root's: %.2000s", data)
	}
	info, err := os.Stat(found[0])
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the record has the mode %s", info.Mode())
	}
	for of, secret := range secrets {
		if strings.Contains(string(data), secret) {
			t.Errorf("the record has ann's %s", of)
		}
	}
}

// homeless: a job of a user whose home is gone has a folder of its own in place of it.
func (b *box) homeless(t *testing.T) {
	away := b.ben.home + ".away"
	must(t, os.Rename(b.ben.home, away))
	defer func() { must(t, os.Rename(away, b.ben.home)) }()
	cmd := b.ben.command(deadline(t, time.Minute), b.environment(), filepath.Join(b.programs, "muster"), "run", "--name", "homeless", "--code", "none", "--", "sh", "-c", `cd && echo kept > file && cat file`)
	cmd.Dir = "/"
	if r := harness.Finish(cmd); r.Code != 0 || !strings.Contains(r.Stdout, "kept") {
		t.Errorf("%+v", r)
	}
}
