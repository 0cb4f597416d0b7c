package spark

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

func TestSizes(t *testing.T) {
	for memory, want := range map[int64]int64{0: 512, 1024: 512, 2048: 896, 8192: 3968} {
		if got := Heap(memory); got != want {
			t.Errorf("a heap of %d MiB in %d, want %d", got, memory, want)
		}
	}
	for milli, want := range map[int64]int64{100: 1, 1000: 1, 1900: 1, 4000: 4} {
		if got := Slots(milli); got != want {
			t.Errorf("%d tasks on %d thousandths, want %d", got, milli, want)
		}
	}
}

// TestSettings: the files are their owner's, whatever listens is closed to
// strangers, and a folder may have a name with spaces.
func TestSettings(t *testing.T) {
	scratch := filepath.Join(t.TempDir(), `a "folder"`)
	s := Settings{Master: "127.0.0.1:7", Host: "127.0.0.1", Secret: "abc", Pages: "xyz", DriverHeap: 600, Scratch: scratch}
	conf, err := s.write()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(conf, propertiesFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"spark.authenticate true", "spark.authenticate.secret abc", "spark.network.crypto.enabled true", "spark.network.crypto.saslFallback false",
		"spark.ui.enabled false", "spark.ui.filters org.apache.spark.ui.JWSFilter", "spark.org.apache.spark.ui.JWSFilter.param.secretKey xyz", "spark.master.rest.enabled false",
		"spark.driver.memory 600m", "spark.executor.extraJavaOptions -XX:-UsePerfData -Djava.io.tmpdir=.", `spark.driver.extraJavaOptions -XX:-UsePerfData -Djava.io.tmpdir="` + filepath.Dir(scratch) + `/a \\"folder\\"/tmp"`,
	} {
		if !slices.Contains(strings.Split(string(text), "\n"), want) {
			t.Errorf("there is no line %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "spark.executor.memory") {
		t.Error("an executor's heap is said that nobody gave")
	}
	const second = "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version 2\n"
	if strings.Contains(string(text), second) {
		t.Error("members that share a folder commit as if they did not")
	}
	const own = "spark.shuffle.readHostLocalDisk false\n"
	if strings.Contains(string(text), own) {
		t.Error("members that see the same files fetch from one another what they could read")
	}
	s.Apart, s.Own = true, true
	for _, want := range []string{second, own, "spark.speculation false\n", "spark.task.maxFailures 1\n"} {
		if text := s.Properties(); !strings.Contains(text, want) {
			t.Errorf("where members share no folder there is no line %q in\n%s", want, text)
		}
	}
}

// TestLeavingSettings: how an executor goes, and by what it is known whether tasks ran
// again, where executors may go, and nowhere else.
func TestLeavingSettings(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		scratch := t.TempDir()
		s := Settings{Master: "127.0.0.1:7", Host: "127.0.0.1", Scratch: scratch, Apart: true, Leaves: leaves}
		conf, err := s.write()
		if err != nil {
			t.Fatal(err)
		}
		logs, err := os.ReadFile(filepath.Join(conf, loggingFile))
		if err != nil || strings.Contains(string(logs), "logger.worker.level = info") != leaves || strings.Contains(string(logs), "WORKER") {
			t.Errorf("%v: %s", err, logs)
		}
		for _, line := range []string{"spark.decommission.enabled true\n", "spark.eventLog.dir file://" + scratch + "/events\n", "spark.stage.maxConsecutiveAttempts 1\n"} {
			if strings.Contains(s.Properties(), line) != leaves {
				t.Errorf("leaves: %v, and %q", leaves, line)
			}
		}
	}
}

// TestUncommitted: what Hadoop keeps until a task commits goes, and nothing else.
func TestUncommitted(t *testing.T) {
	dir := t.TempDir()
	for name, goes := range map[string]bool{
		"t/_temporary/0/_temporary/attempt_1/part-0": true, "t/part-1": false, "_temporary/0/x": true,
		"own/_temporary/file": false, "own/_temporary/12/file": false, "other/_temporary/a1/x": false,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := os.Stat(path); os.IsNotExist(err) != goes {
				t.Errorf("%s is gone: %v, want %v", name, os.IsNotExist(err), goes)
			}
		}()
	}
	if err := uncommitted(dir); err != nil {
		t.Fatal(err)
	}
}

// TestWords: words that nobody but a job writes are refused, and a member that can never
// run says so where those look who put its files together.
func TestWords(t *testing.T) {
	var said bytes.Buffer
	for _, args := range [][]string{{}, {"master"}, {"driver"}, {"driver", "--no"}} {
		if code := Main(t.Context(), args, t.TempDir(), &said, &said); code != exitUsage {
			t.Errorf("%q: %d", args, code)
		}
	}
	if !strings.Contains(said.String(), "use `muster pipeline`") {
		t.Error(said.String())
	}
	t.Setenv("DRIVER_HOSTS", "nobody.invalid:1")
	equip(t, "", "", "17.0.15")
	for _, verb := range []string{DriverVerb, ExecutorVerb} {
		datum := t.TempDir()
		said.Reset()
		code := Main(t.Context(), []string{verb, "--apart", "--datum", datum, "--", "--any"}, t.TempDir(), &said, &said)
		if o, ok := Outcome(datum); code != exitFailed || !ok || o.Exit != shift.Unable || !strings.Contains(o.Error, "no pyspark") || !strings.Contains(said.String(), "no pyspark") {
			t.Errorf("%s: %d, %+v, %q", verb, code, o, said.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	equip(t, "4.3.0", "", "17.0.15")
	if code := Main(ctx, []string{DriverVerb, "--datum", t.TempDir()}, t.TempDir(), &said, &said); code != exitStopped {
		t.Errorf("one that is stopped: %d", code)
	}
}

// TestTidy: Hadoop's checksums go, and nothing else.
func TestTidy(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"t/part-0": "x", "t/.part-0.crc": "crc\x00abc",
		"t/.gone.crc": "crc\x00abc", // beside nothing
		"t/own":       "x", "t/.own.crc": "mine",
		"a.crc": "crc\x00abc", "a": "x",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := tidy(dir); err != nil {
		t.Fatal(err)
	}
	delete(files, "t/.part-0.crc")
	left := map[string]string{}
	for _, pattern := range []string{"*", "*/*", "*/.*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range found {
			if text, err := os.ReadFile(path); err == nil {
				left[strings.TrimPrefix(path, dir+"/")] = string(text)
			}
		}
	}
	if diff := cmp.Diff(files, left); diff != "" {
		t.Error(diff)
	}
}

// TestSecret: the driver makes it, once; executors wait for it.
func TestSecret(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := awaitSecret(ctx, dir); !errors.Is(err, ErrStopped) {
		t.Errorf("without a driver: %v", err)
	}
	made, err := makeSecret(dir)
	if err != nil || len(made) < 40 {
		t.Fatal(made, err)
	}
	again, err := makeSecret(dir)
	got, failed := awaitSecret(t.Context(), dir)
	if again != made || got != made || err != nil || failed != nil {
		t.Errorf("%q, then %q and %q: %v, %v", made, again, got, err, failed)
	}
	if info, err := os.Stat(filepath.Join(dir, shift.SecretFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestFollow copies what comes, once, and the rest at the end.
func TestFollow(t *testing.T) {
	work := t.TempDir()
	path := filepath.Join(work, "app-1", "0", "stdout")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	told := map[string]int64{}
	for _, text := range []string{"one\n", "one\ntwo\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		more(work, told, &out)
	}
	errs := filepath.Join(filepath.Dir(path), "stderr")
	for _, text := range []string{"Spark Executor Command: java", "Spark Executor Command: java" + header, "Spark Executor Command: java" + header + "three\n"} {
		if err := os.WriteFile(errs, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		more(work, told, &out)
	}
	ended := make(chan struct{})
	close(ended)
	follow(ended, t.TempDir(), &out)
	if out.String() != "one\ntwo\nthree\n" {
		t.Errorf("%q", out.String())
	}
}

// TestProgram: what a program leaves behind ends with it, and how it ended is said
// in words.
func TestProgram(t *testing.T) {
	begin := func(line string) (*program, *bytes.Buffer) {
		t.Helper()
		var out bytes.Buffer
		p, err := start(t.Context(), os.Environ(), &out, "sh", "-c", line)
		if err != nil {
			t.Fatal(err)
		}
		return p, &out
	}
	p, out := begin("sleep 60 >/dev/null 2>&1 & echo $!; exit 3")
	<-p.ended
	if says := inWords(p.err); says != "ended with exit code 3" {
		t.Error(says)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(strings.TrimSpace(out.String())); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is left", out)
		}
	}
	p, _ = begin("exec sleep 60")
	p.halt()
	if says := inWords(p.err); !strings.Contains(says, "signal 15") || p.running() {
		t.Error(says)
	}
	p, _ = begin("trap '' TERM; while :; do sleep 60; done")
	p.kill()
	if says := inWords(p.err); !strings.Contains(says, "signal 9") || p.running() {
		t.Error(says)
	}
}

// alive says that a process runs.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// TestStoppedDriver leaves no outcome, so that it may be run again; one that cannot
// run at all leaves one that says why.
func TestStoppedDriver(t *testing.T) {
	datum := t.TempDir()
	d := &Driver{Datum: datum, Address: "nobody.invalid:1", Python: "python3", Tries: 1, Scratch: t.TempDir(), Out: &bytes.Buffer{}}
	equip(t, "", "", "17.0.15")
	err := d.Run(t.Context())
	o, ok := Outcome(datum)
	if err == nil || !ok || !strings.Contains(o.Error, "no pyspark") || o.Exit != 1 || o.ID != filepath.Base(datum) {
		t.Errorf("%v: %+v, %v", err, o, ok)
	}
	if text, err := os.ReadFile(filepath.Join(datum, shift.LogFile)); err != nil || !strings.Contains(string(text), "no pyspark") {
		t.Errorf("the log: %q, %v", text, err)
	}
	equip(t, "4.3.0", "", "17.0.15")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := d.Run(ctx); !errors.Is(err, ErrStopped) {
		t.Errorf("%v", err)
	}
	if _, ok := Outcome(datum); ok {
		t.Error("an outcome is left")
	}
}
