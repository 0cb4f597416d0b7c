//go:build e2e

package box

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestTwoUsersOfAMachine tries what docs/security.md lists: with jobs of the isolated tier, and in the plain
// tier what depends on the tier.
func TestTwoUsersOfAMachine(t *testing.T) {
	for _, tier := range []string{"isolated", "plain"} {
		t.Run(tier, func(t *testing.T) {
			b := open(t, tier)
			for _, try := range []struct {
				name   string
				try    func(*testing.T)
				always bool // in both tiers
			}{
				{"identity", b.identity, true}, {"files", b.files, true}, {"processes", b.processes, true}, {"objects", b.objects, false},
				{"pods", b.pods, true}, {"links", b.links, true}, {"headers", b.headers, false}, {"sockets", b.sockets, false},
				{"environments", b.environments, false}, {"S3", b.s3, false}, {"record", b.record, false}, {"names", b.names, false},
				{"addresses", b.addresses, false}, {"number of processes", b.bomb, true}, {"homeless", b.homeless, true},
				{"kill -9", b.killed, false}, {"removed user", b.removed, false},
			} {
				if try.always || tier == "isolated" {
					t.Run(try.name, try.try)
				}
			}
		})
	}
}

// files looks for ann's texts wherever ben may read: as a program of the machine, and as a job.
func (b *box) files(t *testing.T) {
	script := fmt.Sprintf("grep -rlaF SECRET-OF- %s %s /tmp /dev/shm /run /var/tmp 2>/dev/null; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -aF SECRET-OF-; true", b.Home, b.ann.home)
	if r := b.shell(t, b.ben, script); r.Code != 0 || r.Stdout != "" {
		t.Errorf("a program of ben's finds: %+v", r)
	}
	if r := b.job(t, b.ben, "search", "echo started; "+script); r.Code != 0 || strings.TrimSpace(r.Stdout) != "started" {
		t.Errorf("a job of ben's finds: %+v", r)
	}
	for _, dir := range []string{"", "users", "pods", "jobs", "stores", "archive", "environments", filepath.Join("users", fmt.Sprint(b.ann.uid))} {
		if r := b.shell(t, b.ben, "ls "+filepath.Join(b.Home, dir)); r.Code == 0 {
			t.Errorf("ben lists the folder %q: %s", dir, r.Stdout)
		}
	}
	if r := b.shell(t, b.ann, "cat "+filepath.Join(b.ann.home, "private")); r.Stdout != secrets["file of the home"] {
		t.Errorf("ann's own file: %+v", r)
	}
}

// pid is a process of ann's job.
func (b *box) pid(t *testing.T) string {
	t.Helper()
	for _, p := range harness.Processes(b.Home) {
		var info unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d", p.PID), &info); err == nil && info.Uid == b.ann.uid && strings.Contains(p.Command, "train.py") {
			return strconv.Itoa(p.PID)
		}
	}
	t.Fatalf("ann's job has no process with her number: %v\n%s", harness.Processes(b.Home), b.as(t, b.ann, "describe", "held").Stdout)
	return ""
}

// processes tries a process of ann's job and its shim: memory, descriptors, signals.
func (b *box) processes(t *testing.T) {
	pid := b.pid(t)
	tried := []string{pid}
	for _, p := range harness.Processes(b.Home) {
		var info unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d", p.PID), &info); err == nil && p.Shim && info.Uid != b.ben.uid {
			tried = append(tried, strconv.Itoa(p.PID))
		}
	}
	for _, words := range []string{"trace", "memory", "descriptor", "signal"} {
		for _, pid := range tried {
			if r := b.attempt(t, b.ben, words, pid); r.Code != 1 || !strings.Contains(r.Stdout, "refused:") {
				t.Errorf("%s of process %s: %+v", words, pid, r)
			}
		}
	}
	for _, name := range []string{"environ", "root/", "cwd/", "fd/", "maps"} {
		if r := b.shell(t, b.ben, fmt.Sprintf("ls /proc/%s/%s && cat /proc/%[1]s/%[2]s", pid, name)); r.Code == 0 {
			t.Errorf("ben reads /proc/%s/%s: %s", pid, name, r.Stdout)
		}
	}
	r := b.job(t, b.ben, "signals", fmt.Sprintf("kill -KILL %s; cat /proc/%[1]s/environ; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -F SECRET-OF; true", pid))
	keeps(t, "a job", r)
	if b.pid(t) != pid {
		t.Error("ann's process is another one now")
	}
}

// objects asks for ann's objects by commands.
func (b *box) objects(t *testing.T) {
	ns := b.ann.namespace()
	for _, words := range []string{
		"get -n NS", "describe held -n NS", "logs held -n NS", "delete held -n NS", "suspend held -n NS", "why held -n NS", "release held -n NS",
		"shell held -n NS -- cat /proc/self/environ", "cp held:/etc/hostname . -n NS",
		"data cat corpus:/table.csv -n NS", "data ls corpus -n NS", "data create mine -n NS", "data du -n NS",
		"kubectl get pods -n NS", "kubectl get secret key -o yaml -n NS", "kubectl exec held-worker-0 -n NS -- id", "kubectl logs held-worker-0 -n NS",
		"kubectl port-forward pod/held-worker-0 18099:18080 -n NS", "kubectl get pods -A", "kubectl get secrets -A", "kubectl get nodes", "kubectl get trainingjobs -A",
		"kubectl create token default -n NS", "kubectl auth whoami --as=unix:0", "kubectl get --raw /api/v1/nodes/HOST/proxy/pods", "kubectl get --raw /debug/pprof/heap",
		"kubectl delete queue UANN", "kubectl create clusterrolebinding mine --clusterrole=cluster-admin --user=UBEN", "queue delete UANN",
		"run --name theirs --code none -n NS -- true", "run --name theirs --code none --queue UANN -- true",
		"pause", "node drain HOST", "queue create mine", "prune",
	} {
		host, _ := os.Hostname()
		words := strings.NewReplacer("NS", ns, "UANN", fmt.Sprintf("u-%d", b.ann.uid), "UBEN", fmt.Sprintf("unix:%d", b.ben.uid), "HOST", strings.ToLower(host)).Replace(words)
		r := b.as(t, b.ben, strings.Fields(words)...)
		keeps(t, words, r)
		if r.Code == 0 {
			t.Errorf("ben: muster %s: %s%s", words, r.Stdout, r.Stderr)
		}
	}
}

// template is the manifest of a job. Its parts are further fields of the pod and of the container.
const template = `apiVersion: muster.dev/v1alpha1
kind: TrainingJob
metadata: {name: %s}
spec:
  roles:
  - name: worker
    template:
      spec:
        %s
        containers:
        - name: worker
          command: [sh, -c, "cd $MUSTER_ROOT; cat theirs theirs/private; id; sleep 1"]
          %s
`

// pods asks for pods with rights of others.
func (b *box) pods(t *testing.T) {
	for name, c := range map[string]struct{ pod, container string }{
		"another-number":     {pod: fmt.Sprintf("securityContext: {runAsUser: %d}", b.ann.uid)},
		"root":               {pod: "securityContext: {runAsUser: 0}"},
		"container-s-number": {container: fmt.Sprintf("securityContext: {runAsUser: %d}", b.ann.uid)},
		"group":              {pod: "securityContext: {supplementalGroups: [0]}"},
		"files-group":        {pod: fmt.Sprintf("securityContext: {fsGroup: %d}", b.ann.gid)},
		"privileged":         {container: "securityContext: {privileged: true}"},
		"capability":         {container: "securityContext: {capabilities: {add: [SYS_ADMIN]}}"},
		"escalation":         {container: "securityContext: {allowPrivilegeEscalation: true}"},
		"processes":          {pod: "hostPID: true"},
		"network":            {pod: "hostNetwork: true"},
		"ipc":                {pod: "hostIPC: true"},
		"the-machine":        {pod: "volumes: [{name: v, hostPath: {path: /}}]", container: "volumeMounts: [{name: v, mountPath: /muster/theirs}]"},
		"proc":               {pod: "volumes: [{name: v, hostPath: {path: /proc/1}}]", container: "volumeMounts: [{name: v, mountPath: /muster/theirs}]"},
		"the-data-folder":    {pod: "volumes: [{name: v, hostPath: {path: " + b.Home + "}}]", container: "volumeMounts: [{name: v, mountPath: /muster/theirs}]"},
		"her-home":           {pod: "volumes: [{name: v, hostPath: {path: " + b.ann.home + "}}]", container: "volumeMounts: [{name: v, mountPath: /muster/theirs}]"},
		"her-file":           {pod: "volumes: [{name: v, hostPath: {path: " + b.ann.home + "/private}}]", container: "volumeMounts: [{name: v, mountPath: /muster/theirs}]"},
		"shadow":             {pod: "volumes: [{name: v, hostPath: {path: /etc/shadow}}]", container: "volumeMounts: [{name: v, mountPath: /muster/theirs}]"},
		"a-claim-of-hers":    {pod: "volumes: [{name: v, persistentVolumeClaim: {claimName: held-checkpoints}}]", container: "volumeMounts: [{name: v, mountPath: /muster/theirs}]"},
		"a-node":             {pod: "nodeName: somewhere"},
		"an-account":         {pod: "serviceAccountName: muster-manager"},
	} {
		t.Run(name, func(t *testing.T) {
			file := b.ben.write(t, name+".yaml", fmt.Sprintf(template, name, c.pod, c.container))
			r := b.as(t, b.ben, "apply", "-f", file)
			keeps(t, name, r)
			if r.Code != 0 {
				return // refused at once
			}
			b.neverRuns(t, name)
		})
	}
}

// neverRuns waits until the job of ben's is said not to start.
func (b *box) neverRuns(t *testing.T, name string) {
	t.Helper()
	refusal := regexp.MustCompile(`refuse|cannot be honoured|not allowed|may not|permission denied|is not|no such|forbidden`)
	harness.Eventually(t, 30*time.Second, "the reason", func() error {
		why := b.as(t, b.ben, "why", name)
		logs := b.as(t, b.ben, "logs", name)
		keeps(t, name, logs)
		keeps(t, name, why)
		if strings.Contains(logs.Stdout, "uid=") {
			t.Fatalf("it runs: %s", logs.Stdout)
		}
		if !refusal.MatchString(why.Stdout) {
			return fmt.Errorf("%+v", why)
		}
		return nil
	})
	if r := b.as(t, b.ben, "delete", name); r.Code != 0 {
		t.Errorf("deleting it: %+v", r)
	}
}

// links lead from ben's files to ann's and root's.
func (b *box) links(t *testing.T) {
	private := filepath.Join(b.ann.home, "private")
	b.ben.write(t, "code/run.sh", "cat stolen shadow; echo ended\n")
	for name, to := range map[string]string{"stolen": private, "shadow": "/etc/shadow"} {
		if r := b.shell(t, b.ben, fmt.Sprintf("ln -sf %s code/%s", to, name)); r.Code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	r := b.as(t, b.ben, "run", "--name", "linked", "--code", filepath.Join(b.ben.home, "code"), "--", "sh", "run.sh")
	keeps(t, "code with links", r)
	if strings.Contains(r.Stdout+r.Stderr, "root:") {
		t.Errorf("ben reads /etc/shadow: %s%s", r.Stdout, r.Stderr)
	}
	r = b.job(t, b.ben, "message", `rm -f "$MUSTER_TERMINATION_LOG" /dev/termination-log; ln -s `+private+` /dev/termination-log; ln -s `+private+` "$MUSTER_CHECKPOINT_DIR/model"; cat "$MUSTER_CHECKPOINT_DIR/model"; exit 3`)
	keeps(t, "a job with links", r)
	keeps(t, "its description", b.as(t, b.ben, "describe", "message"))
	for _, args := range [][]string{{"data", "create", "linked"}, {"data", "put", "code", "linked"}} {
		keeps(t, strings.Join(args, " "), b.as(t, b.ben, args...))
	}
}

// headers claim another user at the socket and at the API server's port.
func (b *box) headers(t *testing.T) {
	const headers = `-H "X-Remote-User: unix:0" -H "X-Remote-Group: system:masters" -H "Impersonate-User: unix:0" -H "Authorization: Bearer x"`
	list := "/api/v1/namespaces/" + b.ann.namespace() + "/secrets"
	socket := os.Getenv("MUSTER_SOCKET")
	for _, script := range []string{
		"curl -s --unix-socket " + socket + " " + headers + " http://muster" + list,
		"curl -s --unix-socket " + socket + ` -H "Connection: X-Remote-User" ` + headers + " http://muster" + list,
		"curl -s --unix-socket " + socket + " --path-as-is http://muster/muster/door/../.." + list,
		"curl -sk " + headers + " " + b.server(t) + list,
		"curl -sk " + b.server(t) + list,
		"curl -s --unix-socket " + socket + " http://muster/muster/door/v1/namespaces/" + b.ann.namespace() + "/data?prefix=packs/",
	} {
		r := b.shell(t, b.ben, script)
		keeps(t, script, r)
		if strings.Contains(r.Stdout, "SecretList") || !regexp.MustCompile(`orbidden|nauthorized|may not|refuse|not allowed|Redirect|40[0-9]`).MatchString(r.Stdout) {
			t.Errorf("%s: %+v", script, r)
		}
	}
	if r := b.as(t, b.ben, "kubectl", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); r.Stdout != fmt.Sprintf("unix:%d", b.ben.uid) {
		t.Errorf("ben is %+v", r)
	}
}

// server is the address of the API server.
func (b *box) server(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(b.Kubeconfig())
	must(t, err)
	found := regexp.MustCompile(`server: (https://\S+)`).FindSubmatch(data)
	if found == nil {
		t.Fatalf("no server in %s", data)
	}
	return string(found[1])
}

// sockets: ben serves a socket of his own, to which ann's commands send nothing.
func (b *box) sockets(t *testing.T) {
	folder := filepath.Join(shared(t), "ben")
	must(t, os.Mkdir(folder, 0o755))
	must(t, os.Chown(folder, int(b.ben.uid), int(b.ben.gid)))
	path := filepath.Join(folder, "muster.sock")
	server := b.ben.command(deadline(t, time.Minute), []string{"MUSTER_TEST_ATTEMPT=listen"}, filepath.Join(b.programs, "attempts"), path)
	out, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	said := make([]byte, len("listens\n"))
	_, err = out.Read(said)
	must(t, err)
	cmd := b.ann.command(deadline(t, time.Minute), []string{"MUSTER_SOCKET=" + path}, filepath.Join(b.programs, "muster"), "get")
	if r := harness.Finish(cmd); r.Code == 0 || !strings.Contains(r.Stderr, path) {
		t.Errorf("ann's command: %+v", r)
	}
	must(t, server.Process.Kill())
	rest, err := io.ReadAll(out)
	must(t, err)
	if len(rest) > 0 {
		t.Errorf("ben's server: %s", rest)
	}
	_ = server.Wait()
	if r := b.shell(t, b.ben, "rm -f "+os.Getenv("MUSTER_SOCKET")+"; mv "+filepath.Dir(os.Getenv("MUSTER_SOCKET"))+" x"); r.Code == 0 {
		t.Errorf("ben removes the socket: %+v", r)
	}
}

// names: ben sees who has GPUs, and not what runs there.
func (b *box) names(t *testing.T) {
	for _, args := range [][]string{{"top"}, {"top", "-o", "json"}, {"status"}, {"doctor"}, {"queue", "list"}, {"queue", "list", "-o", "json"}, {"plan", "--gpus", "3", "--", "true"}} {
		r := b.as(t, b.ben, args...)
		keeps(t, strings.Join(args, " "), r)
		for _, word := range []string{"held", "train.py"} {
			if strings.Contains(regexp.MustCompile(`(?i)held by|is held|are held|"held|HELD`).ReplaceAllString(r.Stdout, ""), word) {
				t.Errorf("%v names %q: %s", args, word, r.Stdout)
			}
		}
		if args[0] == "top" && !strings.Contains(r.Stdout, b.ann.login) {
			t.Errorf("top does not name ann: %+v", r)
		}
	}
	if r := b.as(t, b.ben, "run", "--detach", "--name", "waits", "--gpus", "3", "--code", "none", "--", "true"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	harness.Eventually(t, 20*time.Second, "the reason", func() error {
		r := b.as(t, b.ben, "why", "waits")
		keeps(t, "why", r)
		if !strings.Contains(r.Stdout, b.ann.login) || strings.Contains(r.Stdout, "train.py") {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	if r := b.as(t, b.ben, "delete", "waits"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
}

// addresses: in the isolated tier a pod is reached by its user alone.
func (b *box) addresses(t *testing.T) {
	r := b.as(t, b.ann, "kubectl", "get", "pod", "held-worker-0", "-o", "jsonpath={.status.podIP}")
	address := r.Stdout + ":18080"
	if r := b.attempt(t, b.ann, "connect", address); r.Code != 0 {
		t.Fatalf("ann does not reach %s: %+v", address, r)
	}
	if r := b.attempt(t, b.ben, "connect", address); r.Code != 1 {
		t.Errorf("a program of ben's reaches %s: %+v", address, r)
	}
	const script = `python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], 18080), 3)' ADDRESS && echo crossed || echo refused`
	for p, want := range map[person]string{b.ann: "crossed", b.ben: "refused"} {
		if r := b.job(t, p, "reach", strings.ReplaceAll(script, "ADDRESS", strings.TrimSuffix(address, ":18080"))); !strings.Contains(r.Stdout, want) {
			t.Errorf("a job of %s, want %s: %+v", p.login, want, r)
		}
	}
}

// bomb: ben's processes have a limit, and ann's next job starts.
func (b *box) bomb(t *testing.T) {
	script := `i=0; while [ $i -lt 1000 ]; do sleep 20 & i=$((i+1)); done; wait`
	if r := b.as(t, b.ben, "run", "--detach", "--name", "bomb", "--code", "none", "--backoff-limit", "0", "--", "sh", "-c", script); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	most := 0
	harness.Eventually(t, time.Minute, "the limit of ben's processes", func() error {
		most = max(most, b.count(t, b.ben))
		if r := b.as(t, b.ben, "logs", "bomb"); !strings.Contains(r.Stdout+r.Stderr, "fork") {
			return fmt.Errorf("%d processes: %+v", most, r)
		}
		return nil
	})
	if r := b.job(t, b.ann, "beside", "echo well"); r.Code != 0 || !strings.Contains(r.Stdout, "well") {
		t.Errorf("ann's job beside it: %+v", r)
	}
	// Muster's helper for files of the user, and a shell of the test, are not of the job.
	if most = max(most, b.count(t, b.ben)); most > 152 {
		t.Errorf("ben has %d processes, and 150 are allowed in jobs", most)
	}
	if r := b.as(t, b.ben, "delete", "bomb"); r.Code != 0 {
		t.Errorf("%+v", r)
	}
}

// count is the number of a user's processes.
func (b *box) count(t *testing.T, p person) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, dir := range all {
		var info unix.Stat_t
		if err := unix.Stat(dir, &info); err == nil && info.Uid == p.uid {
			n++
		}
	}
	return n
}

// killed: after kill -9 ann's process is the same, and ben is refused as before.
func (b *box) killed(t *testing.T) {
	pid := b.pid(t)
	b.Kill9(t)
	if r := b.as(t, b.ben, "get"); r.Code == 0 {
		t.Errorf("without Muster: %+v", r)
	}
	must(t, b.Start(deadline(t, 2*time.Minute)))
	harness.Eventually(t, 30*time.Second, "ann's job", func() error {
		if r := b.as(t, b.ann, "get"); r.Code != 0 || !strings.Contains(r.Stdout, "Running") {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	if b.pid(t) != pid {
		t.Error("ann's process is another one now")
	}
	b.files(t)
	b.addresses(t)
}

// removed: the job of a user who is removed goes on, and is shown as of uid N. The user is refused.
func (b *box) removed(t *testing.T) {
	pid := b.pid(t)
	removePerson(t, b.ann.login)
	b.Kill9(t) // it has forgotten logins then
	must(t, b.Start(deadline(t, 2*time.Minute)))
	harness.Eventually(t, 30*time.Second, "the holder", func() error {
		if r := b.as(t, b.ben, "top"); !strings.Contains(r.Stdout, fmt.Sprintf("uid %d", b.ann.uid)) {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	if r := b.as(t, b.ann, "get"); r.Code == 0 || !strings.Contains(r.Stderr, "no user of this machine") {
		t.Errorf("ann's command: %+v", r)
	}
	if b.pid(t) != pid {
		t.Error("ann's process is another one now")
	}
}
