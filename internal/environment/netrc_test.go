//go:build linux

package environment

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// talker is a package whose build prints the netrc that it finds.
const talker = `
import os, sys, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    sys.exit("found " + open(os.path.expanduser("~/.netrc")).read())
`

// privateIndex is an index that asks for ada's password.
func privateIndex(t *testing.T) string {
	t.Helper()
	var wheel bytes.Buffer
	archive := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"mine.py": "", "mine-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1\n",
		"mine-1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "mine-1.dist-info/RECORD": "",
	} {
		w, err := archive.Create(name)
		must(t, err)
		_, err = w.Write([]byte(text))
		must(t, err)
	}
	must(t, archive.Close())
	talking := sdist(t, map[string]string{
		"backend.py": talker, "PKG-INFO": "Metadata-Version: 2.1\nName: hostile\nVersion: 1\n",
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n[project]\nname = \"hostile\"\nversion = \"1\"\n",
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		pages := map[string][]byte{
			"/simple/mine/": []byte(`<a href="/mine-1-py3-none-any.whl">mine-1-py3-none-any.whl</a>`), "/mine-1-py3-none-any.whl": wheel.Bytes(),
			"/simple/hostile/": []byte(`<a href="/hostile-1.tar.gz">hostile-1.tar.gz</a>`), "/hostile-1.tar.gz": talking,
		}
		switch page := pages[r.URL.Path]; {
		case user != "ada" || password != "s3cr3tw0rd":
			w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
			w.WriteHeader(http.StatusUnauthorized)
		case page == nil:
			w.WriteHeader(http.StatusNotFound)
		default:
			if strings.HasSuffix(r.URL.Path, "/") {
				w.Header().Set("Content-Type", "text/html")
			}
			_, _ = w.Write(page)
		}
	}))
	t.Cleanup(server.Close)
	return "--index-url " + server.URL + "/simple\n"
}

// TestIndexSecret: pip reaches an index with the password of a Secret, and the password
// stays in the build.
func TestIndexSecret(t *testing.T) {
	index := privateIndex(t)
	asked := []string{}
	text := "machine 127.0.0.1\n  login ada\n  password s3cr3tw0rd\n"
	r := start(t, Options{Netrc: func(_ context.Context, secret string) (string, error) {
		asked = append(asked, secret)
		if secret != "lab/index" {
			return "", errors.New("there is no Secret " + secret)
		}
		return text, nil
	}})
	without, _ := r.settled(t, Request{Requirements: index + "mine\n"})
	if without.Phase != Failed {
		t.Fatalf("without a password: %+v", without)
	}
	with, _ := r.settled(t, Request{Requirements: index + "mine\n", Secret: "lab/index"})
	if with.Phase != Ready || countInstalled(with.Path) == 0 {
		t.Fatalf("with a password: %+v", with)
	}
	if with.Key == without.Key {
		t.Error("a request without the Secret gets the environment that was built with it")
	}
	if got, _ := r.settled(t, Request{Requirements: index + "mine\n", Secret: "other/index"}); got.Phase != Failed || got.Key == with.Key || !strings.Contains(got.Message, "no Secret other/index") {
		t.Errorf("the Secret of another namespace: %+v", got)
	}
	text = strings.Replace(text, "ada", "ada\n", 1)
	if again, _ := r.settled(t, Request{Requirements: "# as before\n" + index + "mine\n", Secret: "lab/index"}); again.Key != with.Key || again.Phase != Ready {
		t.Errorf("the content of the Secret counts: %+v", again)
	}
	if len(asked) != 2 {
		t.Errorf("the Secret is read for %q, once for each build", asked)
	}
	said, _ := r.settled(t, Request{Requirements: index + "hostile\n", Secret: "lab/index"})
	if said.Phase != Failed {
		t.Fatalf("%+v", said)
	}
	for _, key := range []string{with.Key, said.Key} {
		must(t, filepath.WalkDir(r.home(key), func(path string, entry fs.DirEntry, err error) error {
			must(t, err)
			if entry.Type().IsRegular() {
				data, err := os.ReadFile(path)
				must(t, err)
				if bytes.Contains(data, []byte("s3cr3tw0rd")) {
					t.Errorf("the password is in %s", path)
				}
			}
			return nil
		}))
	}
	log, err := os.ReadFile(filepath.Join(r.home(said.Key), logFile))
	must(t, err)
	if strings.Contains(said.Message+r.log.String(), "s3cr3tw0rd") || !strings.Contains(string(log), "****") {
		t.Errorf("the build says %q, and its log\n%s", said.Message, log)
	}
	if got, _ := start(t, Options{}).settled(t, Request{Requirements: "six", Secret: "lab/index"}); got.Phase != Failed || !strings.Contains(got.Message, "cannot be read here") {
		t.Errorf("without a reader of Secrets: %+v", got)
	}
}

// TestHider: passwords in every form that a netrc allows are taken out of texts.
func TestHider(t *testing.T) {
	hide := hider("machine a login ada password abcd\n" +
		"machine b login \"bob\" password \"two words\" account abcdef\n" +
		"machine c password \"say \\\"hi\\\" now\"\n" +
		"machine d password \"unclosed\nmachine e password \"last\" password the\n")
	for text, want := range map[string]string{
		"abcd": "****", "abcdef": "****", "two words": "****", `say "hi" now`: "****", `say \"hi\" now`: "****",
		"unclosed": "****", "x last y": "x **** y", "ada at a, the user": "ada at a, the user",
	} {
		if got := hide.Replace(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
