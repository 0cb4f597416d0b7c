//go:build linux

package environment

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/environment/confinement"
	"github.com/muster-dev/muster/internal/node/rig"
)

// backend is the build backend of a hostile package. It tries many attacks, and writes
// a report of the successful attacks to the environment.
const backend = `
import ctypes, glob, json, os, subprocess, sys, time, zipfile
HOME, OTHER, OUTSIDE, VENV = %HOME%, %OTHER%, %OUTSIDE%, sys.prefix
done = {}
def attempt(name, do):
    try:
        done[name] = str(do())
    except BaseException as e:
        pass
def read(path):
    with open(path) as f: return f.read()
def write(path):
    with open(path, "w") as f: f.write("was here")
    return "written"
def append(path):
    with open(path, "a") as f: f.write("was here")
    return "written"
def attack():
    attempt("read the admin's kubeconfig", lambda: read(HOME + "/kubeconfig"))
    attempt("list Muster's folder", lambda: [n for n in os.listdir(HOME) if n != "environments"] or 1/0)
    attempt("list other environments", lambda: [n for n in os.listdir(os.path.dirname(os.path.dirname(VENV))) if len(n) == 64 and n not in VENV] or 1/0)
    attempt("read it around the root", lambda: read("/proc/1/root" + HOME + "/kubeconfig"))
    attempt("read it by the process", lambda: read("/proc/1/cwd/kubeconfig"))
    attempt("read the shim's variables", lambda: "SECRET" in read("/proc/1/environ") or 1/0)
    attempt("write another environment", lambda: write(OTHER + "/planted.py"))
    attempt("write the marker", lambda: write(os.path.dirname(VENV) + "/.ready"))
    attempt("write the log", lambda: append(os.path.dirname(VENV) + "/build.log"))
    attempt("write the requirements", lambda: append(os.path.dirname(VENV) + "/requirements.txt"))
    attempt("write outside", lambda: write(OUTSIDE + "/planted"))
    attempt("write the home folder", lambda: write(os.path.expanduser("~root") + "/planted"))
    for at in ("/etc", "/usr", "/usr/local/bin", "/var", "/opt", "/run", "/run/lock", "/dev", "/sys/fs/cgroup"):
        attempt("write " + at, lambda: write(at + "/muster-planted"))
    attempt("be root", lambda: os.setuid(0))
    attempt("be root by sudo", lambda: subprocess.check_output(["sudo", "-n", "id"], stderr=subprocess.STDOUT))
    libc = ctypes.CDLL(None, use_errno=True)
    def call(name, *args):
        if getattr(libc, name)(*args): raise OSError(ctypes.get_errno())
        return "done"
    for at in (HOME, "/tmp", os.path.expanduser("~root"), "/proc"):
        attempt("unmount " + at, lambda: call("umount2", at.encode(), 2))
    attempt("remount", lambda: call("mount", b"none", b"/", None, 32 | 4096, None))
    attempt("trace the shim", lambda: call("ptrace", 16, 1, 0, 0))
    attempt("end the shim", lambda: os.kill(1, 9) and False or 1/0)
    # The same with all rights in a namespace of its own.
    script = "umount -l '%s'; cat '%s/kubeconfig' && echo READ; touch '%s/planted' /etc/muster-planted && echo WRITTEN" % (HOME, HOME, OUTSIDE)
    attempt("own namespaces", lambda: b"READ" in (o := subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True).stdout) or b"WRITTEN" in o or 1/0)
    # Links that would lead Muster's changes out of the environment.
    attempt("link", lambda: os.symlink(OUTSIDE + "/roots", VENV + "/link"))
    attempt("link folder", lambda: os.symlink(OUTSIDE, glob.glob(VENV + "/lib/python3*/site-packages")[0] + "/linked"))
    attempt("hard link", lambda: os.link(OUTSIDE + "/roots", VENV + "/hard") or "linked")
    for name in ("compile-0", "tmp", "requirements.txt"):
        attempt("link in scratch " + name, lambda: os.symlink(OUTSIDE + "/roots", os.environ["TMPDIR"] + "/" + name))
    write(VENV + "/suid"); os.chmod(VENV + "/suid", 0o6755)
    os.makedirs(VENV + "/closed/in"); os.chmod(VENV + "/closed", 0)
    # A process that leaves its session and closes its files.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600) # %MARK%"], {})
        os._exit(0)
    done["variables"] = dict(os.environ)
    done["user"] = [os.getuid(), os.getgid(), os.getgroups()]
    with open(VENV + "/report.json", "w") as out: json.dump(done, out)

def build_wheel(directory, config_settings=None, metadata_directory=None):
    attack()
    name = "hostile-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as z:
        z.writestr("hostile.py", "")
        z.writestr("hostile-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: hostile\nVersion: 1\n")
        z.writestr("hostile-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("hostile-1.dist-info/RECORD", "")
    return name
`

// sdist is a source package with a backend of its own.
func sdist(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var raw bytes.Buffer
	zipped := gzip.NewWriter(&raw)
	w := tar.NewWriter(zipped)
	for name, text := range files {
		must(t, w.WriteHeader(&tar.Header{Name: "hostile-1/" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(text))
		must(t, err)
	}
	must(t, w.Close())
	must(t, zipped.Close())
	return raw.Bytes()
}

// serve serves a package on this machine, and returns the requirement for it.
func serve(t *testing.T, program string) string {
	t.Helper()
	data := sdist(t, map[string]string{
		"backend.py": program, "PKG-INFO": "Metadata-Version: 2.1\nName: hostile\nVersion: 1\n",
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n[project]\nname = \"hostile\"\nversion = \"1\"\n",
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	t.Cleanup(server.Close)
	return "hostile @ " + server.URL + "/hostile-1.tar.gz\n"
}

// victim is a machine with a Muster on it: its home, another environment, and a folder
// that every user may write to.
type victim struct{ home, other, outside string }

func newVictim(t *testing.T) victim {
	t.Helper()
	v := victim{home: filepath.Join(t.TempDir(), "muster"), outside: t.TempDir()}
	v.other = filepath.Join(v.home, "environments", strings.Repeat("a", 64), venvDir)
	must(t, os.MkdirAll(v.other, 0o777))
	must(t, os.Chmod(v.other, 0o777))
	must(t, os.WriteFile(filepath.Join(v.home, "kubeconfig"), []byte("the key"), 0o644)) // the mode does not protect the file
	must(t, os.WriteFile(filepath.Join(v.outside, "roots"), []byte("mine"), 0o644))
	must(t, os.Chmod(v.outside, 0o777))
	must(t, os.Chmod(filepath.Dir(v.outside), 0o777))
	t.Setenv("SECRET_TOKEN", "hush")
	t.Setenv("KUBECONFIG", v.home+"/kubeconfig")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hush")
	t.Setenv("SSH_AUTH_SOCK", v.home+"/agent")
	return v
}

// attack builds an environment of a hostile package, and returns the package's report of
// the attacks that succeeded.
func (v victim) attack(t *testing.T, mark string, c *confinement.Confinement) (State, map[string]any) {
	t.Helper()
	program := strings.NewReplacer("%HOME%", `"`+v.home+`"`, "%OTHER%", `"`+v.other+`"`, "%OUTSIDE%", `"`+v.outside+`"`, "%MARK%", mark).Replace(backend)
	r := start(t, Options{Dir: filepath.Join(v.home, "environments"), Place: c})
	got, _ := r.settled(t, Request{Requirements: serve(t, program)})
	if got.Phase != Ready {
		t.Fatalf("the environment is not made: %+v", got)
	}
	data, err := os.ReadFile(filepath.Join(got.Path, "report.json"))
	must(t, err)
	var done map[string]any
	must(t, json.Unmarshal(data, &done))
	return got, done
}

// checkClean checks the variables of a build, and that no process of the build runs.
func checkClean(t *testing.T, variables any, mark string) {
	t.Helper()
	raw, err := json.Marshal(variables)
	must(t, err)
	given := map[string]string{}
	must(t, json.Unmarshal(raw, &given))
	for name, value := range given {
		if strings.Contains(value, "hush") || strings.Contains(value, "kubeconfig") || strings.HasPrefix(name, "AWS_SECRET") || name == "SSH_AUTH_SOCK" || name == "KUBECONFIG" {
			t.Errorf("the build was given %s=%s", name, value)
		}
	}
	if given["HOME"] == os.Getenv("HOME") || given["HOME"] == "" {
		t.Errorf("its home folder is %q", given["HOME"])
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range commands {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), mark) {
			t.Errorf("%s is left behind: %q", path, line)
		}
	}
}

// TestHostilePackage builds a package that tries to read and write files of other users, to
// gain rights, and to leave a process behind.
func TestHostilePackage(t *testing.T) {
	v := newVictim(t)
	c := place(t, v.home)
	if confined, reason := c.Confined(); !confined {
		t.Skip("needs root and namespaces: " + reason)
	}
	got, done := v.attack(t, "mark-confined", c)
	checkClean(t, done["variables"], "mark-confined")
	if user, _ := json.Marshal(done["user"]); string(user) != "[61007,61007,[]]" {
		t.Errorf("it ran as %s", user)
	}
	for _, harmless := range []string{"variables", "user", "link", "link folder", "link in scratch compile-0", "link in scratch tmp", "link in scratch requirements.txt"} {
		delete(done, harmless)
	}
	for what, how := range done {
		t.Errorf("it could %s: %.200v", what, how)
	}
	// Muster follows no link that the package left, and all files of the environment are Muster's.
	if data, err := os.ReadFile(filepath.Join(v.outside, "roots")); err != nil || string(data) != "mine" {
		t.Errorf("a file outside is %q, %v", data, err)
	}
	for _, path := range []string{filepath.Join(v.outside, "planted"), filepath.Join(v.other, "planted.py"), "/etc/muster-planted", "/tmp/muster-planted"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	must(t, filepath.WalkDir(got.Path, func(path string, _ os.DirEntry, err error) error {
		must(t, err)
		info, err := os.Lstat(path)
		must(t, err)
		if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
			t.Errorf("%s belongs to user %d", path, owner)
		}
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
		return nil
	}))
	if entries, err := os.ReadDir(filepath.Dir(got.Path)); err != nil || len(entries) > 9 {
		t.Errorf("beside the environment are %v, %v", entries, err)
	}
}

// TestHostilePackageInThePlainTier: builds that are not confined get no secrets in
// variables either, and leave no process running.
func TestHostilePackageInThePlainTier(t *testing.T) {
	v := newVictim(t)
	c, err := confinement.Open(t.Context(), confinement.Options{Dir: filepath.Join(t.TempDir(), "builds"), Shim: rig.Shim(t), Plain: true})
	must(t, err)
	t.Cleanup(c.Close)
	r := start(t, Options{Dir: filepath.Join(v.home, "environments"), Place: c})
	got, _ := r.settled(t, Request{Requirements: serve(t, strings.Replace(backgroundOnly, "%MARK%", "mark-plain", 1))})
	if got.Phase != Ready {
		t.Fatalf("%+v", got)
	}
	data, err := os.ReadFile(filepath.Join(got.Path, "report.json"))
	must(t, err)
	var done map[string]any
	must(t, json.Unmarshal(data, &done))
	checkClean(t, done["variables"], "mark-plain")
}

// backgroundOnly is a backend that leaves a process behind.
const backgroundOnly = `
import json, os, sys, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600) # %MARK%"], {})
        os._exit(0)
    with open(sys.prefix + "/report.json", "w") as out: json.dump({"variables": dict(os.environ)}, out)
    name = "hostile-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as z:
        z.writestr("hostile-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: hostile\nVersion: 1\n")
        z.writestr("hostile-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("hostile-1.dist-info/RECORD", "")
    return name
`

// TestEndlessBuild: the builder ends a build that never ends, and builds others.
func TestEndlessBuild(t *testing.T) {
	index := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer index.Close()
	r := start(t, Options{Limit: time.Second})
	got, _ := r.settled(t, Request{Requirements: "-i " + index.URL + "\nsix==1.16.0"})
	if got.Phase != Failed || !strings.Contains(got.Message, "not built within 1s") {
		t.Errorf("%+v", got)
	}
}
