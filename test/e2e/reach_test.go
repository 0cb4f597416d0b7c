//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// begin starts a command and returns a channel of its lines, closed at its end.
func begin(t testing.TB, cmd *exec.Cmd) <-chan string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		for range lines {
		}
		if _ = cmd.Wait(); t.Failed() {
			t.Logf("%v said on standard error: %s", cmd.Args, errs.String())
		}
	})
	return lines
}

// next returns the next line with the words.
func next(t testing.TB, lines <-chan string, words string) string {
	t.Helper()
	patience := time.NewTimer(20 * time.Second)
	defer patience.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("it ended before it said %q", words)
			}
			if strings.Contains(line, words) {
				return line
			}
		case <-patience.C:
			t.Fatalf("no line with %q came", words)
		}
	}
}

func TestLogs(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
		release := filepath.Join(t.TempDir(), "release")
		submit(t, m, ns, "talk", "--", "sh", "-c", `for i in 1 2 3; do echo line $i; done; while [ ! -e `+release+` ]; do sleep 0.05; done; echo last line; exit 4`)
		waitPhase(t, m, ns, "talk", v1alpha1.JobRunning)
		follow := m.Command(ctx, "-n", ns, "logs", "-f", "talk")
		lines := begin(t, follow)
		next(t, lines, "line 3")
		expect(t, m.Run(ctx, "-n", ns, "logs", "talk", "--tail", "1"), 0, "line 3")
		if r := m.Run(ctx, "-n", ns, "logs", "talk", "--tail", "1"); strings.Count(r.Stdout, "\n") != 1 {
			t.Errorf("--tail 1 printed %q", r.Stdout)
		}
		if r := m.Run(ctx, "-n", ns, "logs", "talk", "--since", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)); r.Stdout != "" {
			t.Errorf("--since with a time to come printed %q", r.Stdout)
		}
		if r := m.Run(ctx, "-n", ns, "logs", "talk", "--since", "10m"); strings.Count(r.Stdout, "\n") != 3 {
			t.Errorf("--since 10m printed %q", r.Stdout)
		}
		stamped := m.Run(ctx, "-n", ns, "logs", "talk", "--timestamps")
		expect(t, stamped, 0, "line 1")
		first, _, _ := strings.Cut(stamped.Stdout, " ")
		if at, err := time.Parse(time.RFC3339Nano, first); err != nil || time.Since(at) > time.Minute {
			t.Errorf("--timestamps printed %q, want times of just now first: %v", stamped.Stdout, err)
		}
		if err := os.WriteFile(release, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		next(t, lines, "last line")
		for range lines {
		}
		if err := follow.Wait(); follow.ProcessState.ExitCode() != 4 {
			t.Errorf("logs -f ended with %v, want the script's exit code 4", err)
		}
		expect(t, m.Kubectl(ctx, "", "delete", "pods", "--all", "-n", ns, "--timeout=30s"), 0)
		expect(t, m.Run(ctx, "-n", ns, "logs", "talk"), 0, "line 1", "last line")
	})
}

// TestLogsOfAMemberThatWasStartedAgain shows what it wrote before and after.
func TestLogsOfAMemberThatWasStartedAgain(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx, seconds := m.Namespace(t), deadline(t, 60*time.Second), mark()
		submit(t, m, ns, "again", "--backoff-limit", "2", "--", "sh", "-c", `f=$MUSTER_CHECKPOINT_DIR/once; if [ -e $f ]; then echo second life; exec sleep `+seconds+`; fi; touch $f; echo first life; exit 3`)
		harness.Eventually(t, 30*time.Second, "waiting for the second life", func() error {
			if len(running(m, "sleep "+seconds)) == 0 || job(t, m, ns, "again").Status.Restarts != 1 {
				return fmt.Errorf("not yet: %s", job(t, m, ns, "again").Status.Message)
			}
			return nil
		})
		harness.Eventually(t, 10*time.Second, "waiting for what it says", func() error {
			if r := m.Run(ctx, "-n", ns, "logs", "again"); !strings.Contains(r.Stdout, "second life") {
				return fmt.Errorf("logs say %q %s", r.Stdout, r.Stderr)
			}
			return nil
		})
		r := m.Run(ctx, "-n", ns, "logs", "again", "--previous")
		expect(t, r, 0, "first life")
		if strings.Contains(r.Stdout, "second life") {
			t.Errorf("--previous printed the present: %q", r.Stdout)
		}
		expect(t, m.Run(ctx, "-n", ns, "delete", "again"), 0)
	})
}

// TestMuchOutput pipes 200 MB through muster run: the last line arrives, and
// the pod's folder stays bounded.
func TestMuchOutput(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
		cmd := m.Command(ctx, "-n", ns, "run", "--name", "loud", "--code", "none", "--", "python3", "-c",
			"import sys\nline = 'x' * 199 + '\\n'\nfor i in range(1000): sys.stdout.write(line * 1000)\nprint('the last line')")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var tail []byte
		var total int64
		for buffer := make([]byte, 1<<20); ; {
			n, err := out.Read(buffer)
			total += int64(n)
			tail = append(tail, buffer[:n]...)
			tail = tail[max(0, len(tail)-200):]
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d MB arrived", total/1e6)
		if !strings.Contains(string(tail), "the last line") {
			t.Errorf("the output ends with %q, want the last line", tail)
		}
		if size := folderSize(m.Home, "pods") + folderSize(m.Home, filepath.Join("archive", ns)); size > 60<<20 {
			t.Errorf("logs take %d MiB, want at most 60", size>>20)
		}
		expect(t, m.Run(ctx, "-n", ns, "logs", "loud", "--tail", "1"), 0, "the last line")
	})
}

// folderSize is how many bytes the regular files below home's folder have that
// are logs.
func folderSize(home, folder string) (size int64) {
	_ = filepath.WalkDir(filepath.Join(home, folder), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(path, "log") {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

func TestShellAndCopies(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
		submit(t, m, ns, "open", "--workers", "2", "--ps", "1", "--", "sleep", mark())
		waitPhase(t, m, ns, "open", v1alpha1.JobRunning)
		expect(t, m.Run(ctx, "-n", ns, "shell", "open", "--", "sh", "-c", "echo $ROLE-$INDEX; exit 6"), 6, "worker-0")
		expect(t, m.Run(ctx, "-n", ns, "shell", "open", "ps-0", "--", "sh", "-c", "echo $ROLE-$INDEX"), 0, "ps-0")
		expect(t, m.Run(ctx, "-n", ns, "shell", "open", "worker-7", "--", "true"), 3, "worker-7")
		dir := folder(t, map[string]string{"in/a.txt": "there\n", "in/sub/b.txt": "and deeper\n"})
		expect(t, m.RunIn(ctx, dir, "-n", ns, "cp", "in", "open/worker-1:copied"), 0)
		expect(t, m.Run(ctx, "-n", ns, "shell", "open", "worker-1", "--", "cat", "copied/a.txt", "copied/sub/b.txt"), 0, "there\nand deeper\n")
		expect(t, m.RunIn(ctx, dir, "-n", ns, "cp", "open/worker-1:copied", "back"), 0)
		if data, err := os.ReadFile(filepath.Join(dir, "back", "sub", "b.txt")); err != nil || string(data) != "and deeper\n" {
			t.Errorf("what came back is %q: %v", data, err)
		}
		if r := m.RunIn(ctx, dir, "-n", ns, "cp", "open/worker-1:absent", "."); r.Code == 0 || !strings.Contains(r.Stderr, "absent") {
			t.Errorf("copying what does not exist: exit code %d, %s", r.Code, r.Stderr)
		}
		expect(t, m.Run(ctx, "-n", ns, "delete", "open"), 0)
	})
}

// TestEveryFormat reads every command's machine-readable form as JSON.
func TestEveryFormat(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	submit(t, m, ns, "seen", "--gpus", "H100:1", "--", "sleep", mark())
	waitPhase(t, m, ns, "seen", v1alpha1.JobRunning)
	submit(t, m, ns, "waits", "--gpus", "H100:2", "--", "true")
	waitPhase(t, m, ns, "waits", v1alpha1.JobWaiting)
	for _, c := range []struct {
		args string
		says []string
	}{
		{"get seen -o json", []string{`"TrainingJob"`}},
		{"get tj -o json", []string{`"seen"`, `"waits"`}},
		{"get pods -o json", []string{`"seen-worker-0"`}},
		{"top -o json", []string{`"seen"`, `"worker-0"`, "H100"}},
		{"why waits -o json", []string{"H100", "seen"}},
		{"status -o json", []string{`"isolated"`, `"Ready"`}},
		{"doctor -o json", []string{"python"}},
	} {
		r := m.Run(ctx, append([]string{"-n", ns}, strings.Fields(c.args)...)...)
		expect(t, r, 0)
		for _, word := range c.says {
			if !strings.Contains(strings.ToLower(r.Stdout), strings.ToLower(word)) {
				t.Errorf("muster %s does not say %s: %s", c.args, word, r.Stdout)
			}
		}
		if !json.Valid([]byte(r.Stdout)) {
			t.Errorf("muster %s printed no JSON: %s", c.args, r.Stdout)
		}
	}
	for args, says := range map[string][]string{
		"get":                        {"seen", "Running", "waits", "Waiting"},
		"get -o wide":                {"seen", "H100"},
		"get seen -o yaml":           {"kind: TrainingJob", "name: seen"},
		"get seen -o name":           {"trainingjob.muster.dev/seen"},
		"get pods -o wide":           {"seen-worker-0", "Running"},
		"describe seen":              {"worker-0", "Running", "H100", "SINCE"},
		"describe waits":             {"needs 2 H100", "seen"},
		"describe pod/seen-worker-0": {"muster.dev/host", "Ready"},
		"top":                        {"H100", "seen"},
		"why seen":                   {"seen"},
		"status":                     {"isolated"},
		"doctor":                     {"isolated"},
	} {
		expect(t, m.Run(ctx, append([]string{"-n", ns}, strings.Fields(args)...)...), 0, says...)
	}
	expect(t, m.Run(ctx, "-n", ns, "describe", "nobody"), 3, "nobody")
	expect(t, m.Run(ctx, "-n", ns, "get", "seen", "-o", "xml"), 2, "xml", "yaml")
	expect(t, m.Kubectl(ctx, "", "-n", ns, "describe", "tj", "seen"), 0, "Running", "Roles")
	expect(t, m.Run(ctx, "-n", ns, "delete", "seen", "waits"), 0)
}

// TestDoctorWhereNoneRuns holds each line of doctor against what the machine
// is seen to be from here.
func TestDoctorWhereNoneRuns(t *testing.T) {
	m := &harness.Muster{Home: t.TempDir()}
	r := m.Run(deadline(t, 60*time.Second), "doctor", "-o", "json")
	expect(t, r, 0)
	var findings []struct{ Check, Verdict, Says, Fix string }
	if err := json.Unmarshal([]byte(r.Stdout), &findings); err != nil {
		t.Fatalf("reading %s: %v", r.Stdout, err)
	}
	wanted := doctored(t, m.Home)
	text := m.Run(deadline(t, 60*time.Second), "doctor")
	expect(t, text, 0)
	lines := strings.Split(text.Stdout, "\n")
	for i, want := range wanted {
		if i >= len(findings) || findings[i].Check != want.check {
			t.Fatalf("finding %d is not of %s: %s", i, want.check, r.Stdout)
		}
		f := findings[i]
		if f.Verdict != want.verdict || !regexp.MustCompile(want.says).MatchString(f.Says) || !strings.Contains(f.Fix, want.fix) || (f.Fix == "") != (want.fix == "") {
			t.Errorf("%s: %+v, want %s, words that match %q and advice with %q", want.check, f, want.verdict, want.says, want.fix)
		}
		line := slices.IndexFunc(lines, func(line string) bool {
			fields := strings.Fields(line)
			return len(fields) > 1 && fields[0] == f.Verdict && fields[1] == f.Check
		})
		if line < 0 || !regexp.MustCompile(want.says+`$`).MatchString(strings.TrimSpace(lines[line])) {
			t.Errorf("%s: no line of %q says what is meant", want.check, lines)
			continue
		}
		if f.Fix != "" && strings.TrimSpace(lines[line+1]) != "-> "+f.Fix {
			t.Errorf("%s: the advice %q is not in the line below: %q", want.check, f.Fix, lines[line+1])
		}
	}
	if len(findings) != len(wanted) {
		t.Errorf("%d findings, want %d: %s", len(findings), len(wanted), r.Stdout)
	}
	if files, _ := filepath.Glob(filepath.Join(m.Home, "*")); len(files) > 0 {
		t.Errorf("doctor made %v", files)
	}
}

// diagnosis is what doctor must find: says is a pattern for the whole sentence,
// fix a part of the advice, "" for none.
type diagnosis struct{ check, verdict, says, fix string }

// doctored is what doctor must say of this machine: one where e2e tests run,
// as root, with cgroups and Python, and with or without GPUs.
func doctored(t *testing.T, home string) []diagnosis {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable); print('.'.join(map(str, sys.version_info[:3])))").Output()
	if err != nil {
		t.Fatal(err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(home, &fs); err != nil {
		t.Fatal(err)
	}
	disk := diagnosis{"disk", "ok", `[\d.]+ GiB free in ` + regexp.QuoteMeta(home), ""}
	if int64(fs.Bavail)*fs.Bsize < 5<<30 {
		disk.verdict, disk.fix = "limited", "free some"
	}
	port := diagnosis{"port", "ok", "6443 is free", ""}
	if listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:6443"); err == nil {
		_ = listener.Close()
	} else {
		port.says = "6443 is taken by another program; muster up takes another one"
	}
	gpus := diagnosis{"GPUs", "limited", `none; hardware: .*driver: .*device files: .*nvidia-smi: .*GPUs: there are none to give out`, "muster up --simulate-gpus 8xA100"}
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		gpus = diagnosis{"GPUs", "ok", `0: .* MiB.*\(read through .*\)`, ""}
	}
	images := diagnosis{"images", "limited", `none can be run: there is no containerd at .*: install and start it .*`, "need none of that"}
	if _, err := os.Stat("/run/containerd/containerd.sock"); err == nil {
		images = diagnosis{"images", "ok", `.*containerd.*`, ""}
	}
	lines := strings.Fields(string(version))
	return []diagnosis{
		{"tier", "ok", "isolated: pods have processes, mounts and addresses of their own", ""},
		{"limits", "ok", "memory and CPU limits are kept by control groups, in both tiers", ""},
		images,
		gpus,
		{"guard", "ok", "none: programs outside of Muster can open the GPUs .*", ""},
		{"Python", "ok", regexp.QuoteMeta(python + ", version " + lines[len(lines)-1]), ""},
		disk,
		port,
		{"names", "ok", "localhost resolves", ""},
	}
}

// TestCompletionLoads sources the script in bash, with errors fatal, and
// completes a command, a flag and a job's name.
func TestCompletionLoads(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	script := m.Run(ctx, "completion", "bash")
	expect(t, script, 0)
	cmd := exec.CommandContext(ctx, "bash", "-euc", script.Stdout+"\ncomplete -p muster")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("bash says %v: %s", err, out)
	}
	submit(t, m, ns, "findable", "--", "true")
	expect(t, m.Run(ctx, "-n", ns, "__complete", "logs", "fin"), 0, "findable")
	expect(t, m.Run(ctx, "-n", ns, "__complete", "sus"), 0, "suspend")
	expect(t, m.Run(ctx, "-n", ns, "__complete", "run", "--max"), 0, "--max-time")
}

// TestKubectlWatchesAndAttaches watches a pod end, and attaches to one.
func TestKubectlWatchesAndAttaches(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	kubectl := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, harness.KubectlBinary(), append([]string{"-n", ns}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+m.Kubeconfig())
		return cmd
	}
	release := filepath.Join(t.TempDir(), "release")
	submit(t, m, ns, "seen", "--", "sh", "-c", `n=0; while [ ! -e `+release+` ]; do n=$((n+1)); echo written $n; sleep 0.05; done; echo the last word`)
	jobs, pods := begin(t, kubectl("get", "tj", "-w")), begin(t, kubectl("get", "pods", "-w"))
	next(t, jobs, "Running")
	next(t, pods, "Running")
	attach := kubectl("attach", "seen-worker-0")
	attached := begin(t, attach)
	next(t, attached, "written ")
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	next(t, jobs, "Succeeded")
	next(t, pods, "Completed")
	next(t, attached, "the last word")
	for range attached {
	}
	if err := attach.Wait(); err != nil {
		t.Errorf("attach ended with %v, want exit code 0 as the program ended", err)
	}
}

// TestTooMuchMemoryIsSaid allocates 200 MB with a limit of 64 MiB.
func TestTooMuchMemoryIsSaid(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	expect(t, m.Kubectl(ctx, `{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: big}, spec: {backoffLimit: 0, roles: [{name: worker,
		resources: {requests: {memory: 64Mi}, limits: {memory: 64Mi}}, command: [python3, -c, "x = bytearray(200_000_000)"]}]}}`, "apply", "-n", ns, "-f", "-"), 0)
	waitPhase(t, m, ns, "big", v1alpha1.JobFailed)
	expect(t, m.Run(ctx, "-n", ns, "describe", "big"), 0, "OOMKilled")
	var pod corev1.Pod
	if err := m.Client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "big-worker-0"}, &pod); err != nil {
		t.Fatal(err)
	}
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
		t.Errorf("the container's state is %+v, want OOMKilled with exit code 137", ended)
	}
}

func TestAnotherUser(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	expect(t, m.Kubectl(ctx, `{apiVersion: v1, kind: Pod, metadata: {name: nobody}, spec: {restartPolicy: Never, securityContext: {runAsUser: 65534, runAsGroup: 65534},
		containers: [{name: c, image: muster.dev/host, command: [sh, -c, "id -u; id -g; touch /etc/x || echo refused"]}]}}`, "apply", "-n", ns, "-f", "-"), 0)
	expect(t, m.Kubectl(ctx, "", "wait", "-n", ns, "--for=jsonpath={.status.phase}=Succeeded", "pod/nobody", "--timeout=30s"), 0)
	expect(t, m.Kubectl(ctx, "", "logs", "-n", ns, "nobody"), 0, "65534\n65534\n", "refused")
}
