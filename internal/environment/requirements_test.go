//go:build linux

package environment

import (
	"strings"
	"testing"
)

func TestNormalise(t *testing.T) {
	const hash = "--hash=sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, c := range map[string]struct{ in, want, problem string }{
		"comments, spaces, order":   {in: "\ufeff# top\r\nnumpy  >= 1.2 # why\r\n\r\n  six==1.16.0\n", want: "numpy>=1.2\nsix==1.16.0\n"},
		"a hash is no comment":      {in: "a @ https://x.test/a.zip#egg=a", want: "a @ https://x.test/a.zip#egg=a\n"},
		"continued":                 {in: "six==1.16.0 \\\n    " + hash + "\n", want: "six==1.16.0 " + hash + "\n"},
		"continued into nothing":    {in: "six \\", problem: "nothing follows"},
		"index":                     {in: "--index-url https://u:p@x.test/simple\n-i https://x.test\n--extra-index-url=https://y.test\nsix", want: "--index-url https://u:p@x.test/simple\n-i https://x.test\n--extra-index-url https://y.test\nsix\n"},
		"markers and extras":        {in: `uvicorn[standard]>=0.1 ; python_version < "3.12"`, want: "uvicorn[standard]>=0.1 ; python_version < \"3.12\"\n"},
		"repository":                {in: "pkg @ git+https://x.test/a/b.git@v1", want: "pkg @ git+https://x.test/a/b.git@v1\n"},
		"wheel by address":          {in: "https://x.test/a-1-py3-none-any.whl", want: "https://x.test/a-1-py3-none-any.whl\n"},
		"joined as pip joins":       {in: "num\\\npy\\\n==2.1\n", want: "numpy==2.1\n"},
		"extras and hashes":         {in: "a[ x , y ] (>=1, !=2.*)  " + hash + " " + hash, want: "a[x,y]>=1,!=2.* " + hash + " " + hash + "\n"},
		"a marker in brackets":      {in: "a;(os_name=='posix' or extra not in \"b c\")and python_version>='3'", want: "a ; ( os_name == \"posix\" or extra not in \"b c\" ) and python_version >= \"3\"\n"},
		"frozen":                    {in: "pkg@git+https://u:p@x.test/a/b.git@0123abcd#egg=pkg&subdirectory=c/d", want: "pkg @ git+https://u:p@x.test/a/b.git@0123abcd#egg=pkg&subdirectory=c/d\n"},
		"each option":               {in: "--pypi-url=https://x.test\n--no-index\n-fhttps://x.test/l\n--trusted-host x.test:80\n--no-binary=:all:\n--only-binary a,b\n--prefer-binary\n--pre\n--require-hashes\n--use-feature fast-deps", want: "--index-url https://x.test\n--no-index\n-f https://x.test/l\n--trusted-host x.test:80\n--no-binary :all:\n--only-binary a,b\n--prefer-binary\n--pre\n--require-hashes\n--use-feature fast-deps\n"},
		"words of every language":   {in: "# größer\u2028six # \u00e9\n", want: "six\n"},
		"old line ends":             {in: "six\rnumpy\f", want: "six\nnumpy\n"},
		"editable":                  {in: "six\n-e .", want: "six\n./.\n"},
		"editable, long":            {in: "--editable=./x[a, b]; os_name == 'nt'", want: "./x[a,b] ; os_name == \"nt\"\n"},
		"editable, out of the code": {in: "-e ../x", problem: "leads out of the code folder"},
		"editable, address":         {in: "-e git+https://x.test/a#egg=a", problem: "leave it out in front of an address"},
		"editable, name":            {in: "-e six", problem: "names no package"},
		"other file":                {in: "-r other.txt", problem: "copy its lines here"},
		"other file, joined":        {in: "-rother.txt", problem: "copy its lines here"},
		"constraints":               {in: "-c c.txt", problem: "write its lines here as constraints"},
		"relative":                  {in: "./pkg", want: "./pkg\n"},
		"above":                     {in: "../pkg", problem: "leads out of the code folder"},
		"absolute":                  {in: "/opt/pkg", problem: "a path of one machine"},
		"home":                      {in: "~/pkg", problem: "a path of one machine"},
		"folder":                    {in: "libs//./pkg/ ; os_name == 'nt'", want: "./libs/pkg ; os_name == \"nt\"\n"},
		"folder, extras":            {in: "libs/pkg [ gpu,test ]", want: "./libs/pkg[gpu,test]\n"},
		"wheel":                     {in: "dist/a-1-py3-none-any.whl " + hash + "\na.tar.gz", want: "./dist/a-1-py3-none-any.whl " + hash + "\n./a.tar.gz\n"},
		"file address":              {in: "a @ file:///opt/a", problem: "refers to a file"},
		"file repository":           {in: "a @ git+file:///opt/a", problem: "refers to a file"},
		"named folder":              {in: "a @ ./a", problem: "refers to a file"},
		"named folder, no spaces":   {in: "a@file:///opt/a", problem: "refers to a file"},
		"links in a folder":         {in: "--find-links ./wheels", problem: "refers to a folder"},
		"links on the net":          {in: "-f https://x.test/whl", want: "-f https://x.test/whl\n"},
		"unknown option":            {in: "--target /tmp/x", problem: `the option "--target" is not allowed`},
		"password in a bad line":    {in: "-r https://u:secret@x.test/r.txt", problem: "https://****@x.test/r.txt"},
		"two lines for Python":      {in: "six\x1c-r other.txt", problem: `line 2: "-r other.txt" includes another file`},
		"joined after the check":    {in: "a @ fi\\ \nle:///opt/a", problem: `line 1: "a @ fi\\" refers to a file`},
		"joined behind a comment":   {in: "a @ fi\\ # x\nle:///opt/a", problem: `line 1: "a @ fi\\" refers to a file`},
		"nothing":                   {in: "\n# none\n", want: ""},
		"version with a local part": {in: "torch==2.1.0+cpu", want: "torch==2.1.0+cpu\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Normalise(c.in)
			if c.problem == "" {
				if err != nil || got != c.want {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v lacks %q", err, c.problem)
			}
		})
	}
}

func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:p@ss@x.test/a@b":                                     "https://****@x.test/a@b",
		"Looking in indexes: https://user:p@x.test/simple, https://y.test": "Looking in indexes: https://****@x.test/simple, https://y.test",
		"git+https://token@x.test/a.git":                                   "git+https://****@x.test/a.git",
		"https://u:%zz@x.test/a":                                           "https://****@x.test/a",
		"nothing to hide at https://y.test/a@v1":                           "nothing to hide at https://y.test/a@v1",
	} {
		if got := Mask(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func TestInstallersOwnWords(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		want  string
	}{
		"no such version": {"Collecting six==99\nERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.0)\nERROR: No matching distribution found for six==99\n[notice] A new release of pip",
			"ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.0)\nERROR: No matching distribution found for six==99"},
		"conflict": {"ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.\n\nThe conflict is caused by:\n    a 1 depends on c<2\n    b 2 depends on c>=2\n",
			"ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.\nThe conflict is caused by:\na 1 depends on c<2\nb 2 depends on c>=2"},
		"silent": {"something odd", "something odd"},
	} {
		w := &pipWords{}
		for line := range strings.SplitSeq(c.lines, "\n") {
			w.line(line)
		}
		if got := w.explain(nil); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestInstallersProgress(t *testing.T) {
	type told struct {
		message     string
		done, total int
	}
	var last told
	installed := 2
	p := &pipProgress{tell: func(m string, d, n int) { last = told{m, d, n} }, installed: func() int { return installed }}
	for _, step := range []struct {
		line string
		want told
	}{
		{"Collecting numpy>=1", told{"resolving requirements: numpy>=1 (1 packages so far)", 0, 0}},
		{"  Downloading https://u:p@x.test/numpy-2-cp311.whl (16.8 MB)", told{"downloading numpy-2-cp311.whl (16.8 MB)", 0, 0}},
		{"Building wheels for collected packages: slow", told{"compiling slow", 0, 0}},
		{"Installing collected packages: a, b, c", told{"installing 3 packages", 0, 3}},
	} {
		p.line(step.line)
		if last != step.want {
			t.Errorf("%q: %+v", step.line, last)
		}
	}
	installed = 4
	p.count()
	if last != (told{"installing packages: 2 of 3", 2, 3}) {
		t.Errorf("%+v", last)
	}
}
