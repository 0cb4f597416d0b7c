//go:build linux

package environment

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostile are lines that make pip read files or variables of the machine that
// builds, or do something else than install a package.
var hostile = []string{
	// Files, by options in every form that optparse takes.
	"-r other.txt", "-rother.txt", "-r=other.txt", "--requirement other.txt", "--requirement=other.txt", "--requirem other.txt", "--requireme=other.txt", "--r=other.txt",
	"-c other.txt", "-cother.txt", "--constraint=other.txt", "--const other.txt", "--edit .", "-e", "-e ..", "-e../x", "--editable=/opt/x", "-e ~/x", "-e six", "-e six@x", "-e git+https://x.test/a#egg=a",
	"--pre -r other.txt", "--pre --requirem=other.txt", "--no-index -cother.txt", "-i https://x.test -r other.txt", "--index-url=https://x.test -rother.txt",
	"six -r other.txt", "six --pre -r other.txt", "six==1 --hash=sha256:" + strings.Repeat("0", 64) + " -r other.txt",
	"--trusted-host x.test -r other.txt", "--use-feature fast-deps -r other.txt", "--only-binary :all: -e .", "-- -r other.txt", "- other.txt",
	`"-r" other.txt`, `'-r' other.txt`, `\-r other.txt`, `-r "other.txt"`, "--pre\t-r\tother.txt",
	// The same, hidden from a check that splits lines only at "\n".
	"six\v-r other.txt", "six\f-r other.txt", "six\r-r other.txt", "six\x1c-r other.txt", "six\x1d-r other.txt", "six\x1e-r other.txt",
	"six\u0085-r other.txt", "six\u2028-r other.txt", "six\u2029-r other.txt", "# six\f-r other.txt", "# six\u2028-r other.txt",
	"-\\\nr other.txt", "--req\\\nuirement other.txt", "# six \\\n-r other.txt", "\\\n-r other.txt", "six\\\n # \\\n-r other.txt",
	"# -*- coding: utf-7 -*-\n+AC0-r other.txt", "\ufeff-r other.txt", "\ufeff\ufeff-r other.txt", "-r\u00a0other.txt", "\u200b-r other.txt", "six\x00-r other.txt",
	"\xff\xfe-\x00r\x00", "\xfe\xff\x00-\x00r", "six # \xff",
	// In a marker, where pip takes " -" for the beginning of an option, too.
	`six ; python_version != "a -r other.txt"`, `six ; python_version != "a --requirem=other.txt"`, "six ; -r other.txt", `six ; python_version > "3" -r other.txt`,
	`six ; python_version != "${SECRET}"`, `six ; os_name == 'a" or "b'`, "six ; import os", `six ; os_name`, "six ;", `six ; (os_name == "a"`,
	// Options for a package's setup.py.
	"six --global-option=build", "six --config-settings=a=b", "six --config-settings a=b", "six --install-option=x", "six --glob=x", "six --hash=md5:0", "six --hash",
	"--hash=sha256:" + strings.Repeat("0", 64), "--global-option=x", "--config-settings a=b", "--process-dependency-links", "--target=/tmp", "--user", "--log=/tmp/log", "--cert=/x", "--proxy=x",
	// Folders and archives.
	"..", "../mydir", "/opt/mydir", "~/mydir", "./../mydir", "mydir/../../x", "mydir/..", "./mydir[../x]", "./mydir[a", "./mydir]", "./mydir[]x", "./-x", "a/-r", ".[extra", "./my dir", "./my$dir", "./mydir@x", "./mydir#egg=x", "./m'y", `./m"y`,
	"/", "//x", "./mydir -r other.txt", "./mydir --editable=..", "./mydir --config-settings=a=b", "~", "~root/a.zip", "/a.zip", "../a.zip", "./${SECRET}", "./a ; os_name", "-c ./mydir", "-c ./a.zip",
	"a==1.zip", "a===1.tar.gz", "a[extra]==1.whl", `.\mydir`, `mydir\x`, "mydir; os_name == 'posix' ; a",
	// Addresses of files.
	"file:a.zip", "file:///opt/a.zip", "FILE:///opt/a.zip", "File:a.zip", "a @ file:///opt/a", "a @ FILE:///opt/a", "a@file:/opt/a", "a @file:a", "a @ ./mydir", "a @ mydir", "a @ /opt/a", "a@../a.zip",
	"git+file:///opt/a", "git+FILE:///opt/a", "a @ git+file:///opt/a", "hg+file:///opt/a", "bzr+file:///opt/a", "svn+file:///opt/a", "bzr+lp:a", "a @ git+/opt/a",
	"-f .", "-f mydir", "-f/opt", "--find-links=/opt", "--find-links file:///opt", "--find-links FILE:///opt", "--find mydir", "-i /opt", "-i file:///opt", "--index-url=FILE:///opt", "--extra-index-url ./mydir", "--extra=https://x.test",
	"-i https://x.test/$(id)`id`", `-i "https://x.test"`, "-i https://x.test https://y.test", "-i", "--index-url", "-i git+https://x.test/a", "--pre=1", "--pre x", "-ihttps://x.test/'",
	"a @ https://x.test/a.zip#subdirectory=../../opt", "a @ https://x.test/a.zip#subdirectory=/opt", "a @ https://x.test/a.zip#egg=a&subdirectory=a/../../b", "https://x.test/a.zip#subdirectory=..", "a @ https://x.test/a.zip#subdirectory=%2e%2e",
	// Variables.
	"six==${SECRET}", "${SECRET}", "https://x.test/${SECRET}", "a @ https://x.test/${SECRET}", "-i https://${SECRET}@x.test", "--trusted-host ${SECRET}", "six --hash=sha256:${SECRET}", "$\\\n{SECRET}", "--find-links=https://x.test/${SECRET}",
	// Repositories: arguments of git and others, and programs that run on the machine.
	"git+ssh://git@x.test/a", "a @ git+ssh://git@x.test/a", "git+git@x.test:a", "git+ext::sh -c id", "a @ git+ext::id", "a @ ext::id", "git+https://x.test/a@--upload-pack=id", "a @ git+https://x.test/a.git@--upload-pack=id#egg=a", "a @ git+https://x.test/a@-x",
	"git+https://x.test/a@%2d-x", "hg+https://x.test/a@--config=alias.clone=!id", "a @ hg+http://x.test/a@1", "svn+https://x.test/a", "bzr+https://x.test/a", "git://x.test/a", "a @ git+git://x.test/a", "git+https://-oProxyCommand=id/a", "git+https:///opt/a", "https:///opt/a.zip",
	"ssh://x.test/a", "ftp://x.test/a.zip", "a @ data:text/plain,x", "javascript:x", "a @ https://x.test/a b", "a @ https://x.test/a;b", `a @ https://x.test\@y.test/a`, "https://x.test/a{b}", "https://x.test/é", "https://[::1/a.zip",
	// No requirements at all.
	"six==-1", "six== --pre", "six=1", "six 1", "six==1,", "six==", "six[", "six[a", "six[../a]", "-", "--", "=", "@", "@ https://x.test", ";", "six==1 six", "sіx", "six\\", "six==1 # x\\\n\\",
	strings.Repeat("#", maxRequirements+1),
}

func TestHostileRequirements(t *testing.T) {
	for _, text := range hostile {
		got, err := Normalise(text)
		if err == nil {
			t.Errorf("%q becomes %q", text, got)
			continue
		}
		if said := err.Error(); strings.ContainsAny(said, "\n\x00") || len(said) > 1000 {
			t.Errorf("%.50q is refused with %q", text, said)
		}
	}
}

// reader makes pip's own parser read each of many texts in a folder with baits, and
// prints the files that it opened and the variables that it read.
const reader = `
import io, json, os, sys
from pip._internal.network.session import PipSession
from pip._internal.req import req_file
from pip._internal.req.constructors import install_req_from_line
session, opened, asked = PipSession(), [], []
def getenv(name, default=None):
    asked.append(name)
    return os.environ.get(name, default)
class Watched:
    def __getattr__(self, name):
        return getenv if name == "getenv" else getattr(os, name)
req_file.os = Watched()
watching = False
def hook(event, args):
    if watching and event in ("open", "os.listdir", "os.scandir", "subprocess.Popen", "socket.connect"):
        opened.append(str(args[0]))
sys.addaudithook(hook)
def parse(text):
    global watching
    with open("list.txt", "w", encoding="utf-8", newline="") as out:
        out.write(text)
    opened.clear(), asked.clear()
    found, local, edited, wrong = [], [], False, ""
    watching = True
    try:
        parser = req_file.RequirementsFileParser(session, req_file.get_line_parser(None))
        for line in parser.parse("list.txt", False):
            if not line.is_requirement:
                said = [(k, v if k != "features_enabled" else v[-1:]) for k, v in vars(line.opts).items() if v]
                local.extend(v for _, values in said for v in (values if isinstance(values, list) else [values]) if str(v).lower().startswith("file:"))
                found.append(sorted((k, str(v)) for k, v in said))
                continue
            parsed = req_file.handle_line(line)
            made = install_req_from_line(parsed.requirement, isolated=True)
            if made.link and made.link.scheme not in ("http", "https", "git+http", "git+https"):
                local.append(made.link.url)
            edited = edited or line.is_editable
            found.append([str(made.req), made.link.url if made.link else "", str(made.markers), sorted(made.extras), sorted(parsed.options.items())])
    except BaseException as e:
        wrong = type(e).__name__ + ": " + str(e)
    watching = False
    return {"found": found, "wrong": wrong, "local": local, "edited": edited, "opened": [p for p in opened if p != "list.txt"], "asked": list(asked)}
print(json.dumps([[parse(text) for text in pair] for pair in json.load(sys.stdin)]))
`

// readByPip is the result of pip's parser for a text.
type readByPip struct {
	Found                []any
	Wrong                string
	Opened, Asked, Local []string
	Edited               bool
}

// pipReads makes pip read pairs of texts in a folder, which it returns.
func pipReads(t *testing.T, pairs [][2]string) (string, [][2]readByPip) {
	t.Helper()
	dir := t.TempDir()
	for _, bait := range []string{"other.txt", "mydir/setup.py", "a.zip", "a==1.zip", "six/setup.py", ".git/config"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, bait)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, bait), []byte("bait\n"), 0o644))
	}
	in, err := json.Marshal(pairs)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "python3", "-c", reader)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(string(in))
	cmd.Env = append(os.Environ(), "SECRET=hush")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.2000s", err, stderr.String())
	}
	var read [][2]readByPip
	must(t, json.Unmarshal(out, &read))
	return dir, read
}

// TestBaitsAreTaken shows that reader sees the files and variables of hostile lines.
func TestBaitsAreTaken(t *testing.T) {
	_, read := pipReads(t, [][2]string{{"--pre -r other.txt", "six==${SECRET}"}, {"# x\f--requirem=other.txt", "mydir/"}})
	if r := read[0][0]; len(r.Opened) != 1 || r.Opened[0] != "other.txt" {
		t.Errorf("%+v", r)
	}
	if r := read[0][1]; len(r.Asked) != 1 || r.Asked[0] != "SECRET" || !strings.Contains(fmt.Sprint(r.Found), "hush") {
		t.Errorf("%+v", r)
	}
	if r := read[1][0]; len(r.Opened) != 1 {
		t.Errorf("%+v", r)
	}
	if r := read[1][1]; len(r.Local) != 1 {
		t.Errorf("%+v", r)
	}
}

// pieces are the parts of random requirements.
var pieces = []string{
	"six", "numpy", "A.b-c_d", "==1.0", ">=1", "~= 2.1", ",<3", "===1.zip", "!=1.*", "[x]", "[x, y-z]", " ", " ", "  ", "\t", "\n", "\n", "\n", "\r\n", "\f", "\u2028", "\v", "\\\n", "\\", "#", " # words", ";",
	` ; python_version < "3.12"`, ` ; os_name == 'nt' and (extra in "a b")`, ` ; "a" not in platform_machine`, "python_version", "and", `"x -r other.txt"`, "'", `"`,
	"-", "--", "-r", "other.txt", "--pre", "--no-index", "--requirem=other.txt", "-e .", "-i https://u:p@x.test/simple", "--index-url=https://x.test", "--extra-index-url https://y.test", "-f https://x.test/l", "--trusted-host x.test:80",
	"--no-binary :all:", "--only-binary=six,numpy", "--use-feature=fast-deps", "--require-hashes", " --hash=sha256:" + strings.Repeat("ab", 32), " --hash", "sha256:" + strings.Repeat("0", 64),
	" @ ", "@", "https://x.test/a.zip", "https://x.test/a-1-py3-none-any.whl", "git+https://x.test/a.git", "@v1", "#egg=a", "&subdirectory=b/c", "#sha256=00", "file:///opt/a", "git+file:///opt/a", "mydir", "./mydir", "mydir/", "/", ".", "..", "-e ./mydir", ".zip", "a.zip", "${SECRET}", "$", "{", "}", "(>=1)", "(", ")", "=", "\u00e9", "\ufeff", "\x00",
}

// TestPipReadsWhatIsWritten makes requirements at random. For the accepted ones pip
// opens no file, reads no variable and finds no folder, and it reads the same
// requirements in the written text as in the given one.
func TestPipReadsWhatIsWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var pairs [][2]string
	requirements := 0
	for range 400_000 {
		var text strings.Builder
		for range 1 + random.IntN(7) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		written, err := Normalise(text.String())
		if err != nil || written == "" {
			continue
		}
		if again, err := Normalise(written); again != written || err != nil {
			t.Fatalf("%q becomes %q, and that %q, %v", text.String(), written, again, err)
		}
		if !strings.HasPrefix(written, "-") {
			requirements++
		}
		if pairs = append(pairs, [2]string{text.String(), written}); len(pairs) == 1500 {
			break
		}
	}
	if len(pairs) < 1500 || requirements < 700 {
		t.Fatalf("only %d texts were accepted, %d of them with requirements: the pieces do not fit any more", len(pairs), requirements)
	}
	refused, wrong := 0, 0
	folder, all := pipReads(t, pairs)
	for i, read := range all {
		given, written := read[0], read[1]
		locals := len(Locals(pairs[i][1]))
		if len(written.Opened)+len(written.Asked) > 0 || written.Edited || len(written.Local) > 0 && locals == 0 {
			t.Errorf("%q is written as %q, and pip opens %q, reads variables %q and finds %v", pairs[i][0], pairs[i][1], written.Opened, written.Asked, written.Local)
		}
		for _, url := range written.Local {
			if !strings.HasPrefix(url, "file://"+folder) {
				t.Errorf("%q is written as %q, and pip finds %s, which is not in %s", pairs[i][0], pairs[i][1], url, folder)
			}
		}
		if given.Wrong != "" && locals == 0 { // pip looks whether a path is there
			refused++
		}
		if given.Wrong == "" && fmt.Sprint(given.Found) != fmt.Sprint(written.Found) {
			if wrong++; wrong < 10 {
				t.Errorf("%q is written as %q: pip finds\n%v, %s and\n%v, %s", pairs[i][0], pairs[i][1], given.Found, given.Wrong, written.Found, written.Wrong)
			}
		}
	}
	if refused > len(pairs)/10 {
		t.Errorf("pip itself refuses %d of %d texts that are accepted", refused, len(pairs))
	}
}
