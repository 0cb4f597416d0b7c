//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// classic is the hand-written way to run distributed TensorFlow that teams
// have today: a Deployment and a Service for each parameter server, a Job for
// each worker, all on port 2222, the script in a ConfigMap.
const classic = `
apiVersion: v1
kind: ConfigMap
metadata: {name: script}
data:
  member.py: |
    import socket, os, sys, time
    role, index = sys.argv[1], int(sys.argv[2])
    assert open("/etc/token/key").read() == "s3cret", "the secret is not there"
    assert os.environ["TOKEN"] == "s3cret"
    if role == "ps":
        s = socket.create_server(("0.0.0.0", 2222))
        print("serving on", socket.gethostname(), flush=True)
        while True:
            c, _ = s.accept()
            c.sendall(b"ps-%d" % index)
            c.close()
    for ps in range(2):
        for attempt in range(100):
            try:
                c = socket.create_connection(("ps-%d" % ps, 2222), timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        print("got", c.recv(100).decode(), flush=True)
    open("/data/done-%d" % index, "w").write("yes")
---
apiVersion: v1
kind: Secret
metadata: {name: token}
stringData: {key: s3cret}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
`

func classicPS(index int) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ps-%[1]d}
spec:
  selector: {matchLabels: {app: ps-%[1]d}}
  template:
    metadata: {labels: {app: ps-%[1]d}}
    spec:
      containers:
      - name: ps
        image: muster.dev/host
        command: [python3, -u, /code/member.py, ps, "%[1]d"]
        ports: [{containerPort: 2222}]
        readinessProbe: {tcpSocket: {port: 2222}, periodSeconds: 1}
        env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: key}}}]
        volumeMounts: [{name: code, mountPath: /code}, {name: token, mountPath: /etc/token}]
      volumes: [{name: code, configMap: {name: script}}, {name: token, secret: {secretName: token}}]
---
apiVersion: v1
kind: Service
metadata: {name: ps-%[1]d}
spec: {selector: {app: ps-%[1]d}, ports: [{port: 2222}]}
`, index)
}

func classicWorker(index int) string {
	return fmt.Sprintf(`---
apiVersion: batch/v1
kind: Job
metadata: {name: worker-%[1]d}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: worker
        image: muster.dev/host
        command: [python3, -u, /code/member.py, worker, "%[1]d"]
        resources: {limits: {nvidia.com/gpu: 1}}
        env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: key}}}]
        volumeMounts: [{name: code, mountPath: /code}, {name: token, mountPath: /etc/token}, {name: data, mountPath: /data}]
      volumes: [{name: code, configMap: {name: script}}, {name: token, secret: {secretName: token}}, {name: data, persistentVolumeClaim: {claimName: data}}]
`, index)
}

func TestHandWrittenManifests(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	ctx := deadline(t, 3*time.Minute)
	kubectl := func(args ...string) harness.Result { return m.Kubectl(ctx, "", append([]string{"-n", ns}, args...)...) }
	all := classic + classicPS(0) + classicPS(1) + classicWorker(0) + classicWorker(1)
	expect(t, m.Kubectl(ctx, all, "apply", "-n", ns, "-f", "-"), 0)
	expect(t, kubectl("wait", "--for=condition=complete", "--timeout=90s", "job/worker-0", "job/worker-1"), 0)
	expect(t, kubectl("logs", "job/worker-0"), 0, "got ps-0", "got ps-1")
	expect(t, kubectl("get", "pods", "-o", "wide"), 0, "Completed", "Running")
	expect(t, kubectl("describe", "pod", "-l", "app=ps-0"), 0, "python3", "Ready")
	expect(t, kubectl("exec", "deploy/ps-0", "--", "cat", "/etc/token/key"), 0, "s3cret")
	expect(t, kubectl("exec", "deploy/ps-0", "--", "sh", "-c", "exit 5"), 5)
	if files, _ := filepath.Glob(filepath.Join(m.Home, "volumes", ns, "data-*", "done-*")); len(files) != 2 {
		t.Errorf("the claim's folder holds %v, want done-0 and done-1", files)
	}
	expect(t, kubectl("delete", "deploy,svc,job,cm,secret,pvc", "--all", "--timeout=60s"), 0)
}

// TestServices checks ClusterIP with another target port and two ready
// back-ends, and a headless Service.
func TestServices(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	kubectl := func(args ...string) harness.Result { return m.Kubectl(ctx, "", append([]string{"-n", ns}, args...)...) }
	expect(t, m.Kubectl(ctx, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  serviceName: peers
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: muster.dev/host, command: [sh, -c, "mkdir -p /site && cd /site && hostname > name && exec python3 -m http.server 8000"], readinessProbe: {httpGet: {path: /name, port: 8000}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: peers}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 8000}]}
`, "apply", "-n", ns, "-f", "-"), 0)
	expect(t, kubectl("rollout", "status", "statefulset/web", "--timeout=60s"), 0)
	fetch := "import urllib.request as u,sys; print(*sorted({u.urlopen('http://web/name').read().decode().strip() for _ in range(40)}))"
	harness.Eventually(t, 20*time.Second, "reaching both back-ends", func() error {
		if r := kubectl("exec", "web-0", "--", "python3", "-c", fetch); r.Stdout != "web-0 web-1\n" {
			return fmt.Errorf("got %q %s", r.Stdout, r.Stderr)
		}
		return nil
	})
	expect(t, kubectl("exec", "web-0", "--", "python3", "-c", "import socket; print(len({a[4][0] for a in socket.getaddrinfo('peers',8000)}), socket.gethostbyname('web-1.peers'))"), 0, "2 10.")
}

func TestPortForwardAndFollow(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		ctx := deadline(t, 2*time.Minute)
		port := freePort(t)
		expect(t, m.Kubectl(ctx, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: muster.dev/host, command: [sh, -c, "echo up; exec python3 -u -m http.server %d"]}]}}`, port), "apply", "-n", ns, "-f", "-"), 0)
		expect(t, m.Kubectl(ctx, "", "wait", "-n", ns, "--for=condition=Ready", "pod/web", "--timeout=30s"), 0)
		// kubectl gives up for good at the first connection that is refused.
		harness.Eventually(t, 30*time.Second, "the server in the pod listening", func() error {
			if r := m.Kubectl(ctx, "", "logs", "-n", ns, "web"); !strings.Contains(r.Stdout, "Serving HTTP") {
				return fmt.Errorf("got %q %s", r.Stdout, r.Stderr)
			}
			return nil
		})
		forward := exec.CommandContext(ctx, harness.KubectlBinary(), "port-forward", "-n", ns, "pod/web", fmt.Sprintf(":%d", port))
		forward.Env = append(os.Environ(), "KUBECONFIG="+m.Kubeconfig())
		out, err := forward.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := forward.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = forward.Process.Signal(os.Interrupt); _ = forward.Wait() }()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		address := strings.Fields(strings.TrimPrefix(line, "Forwarding from "))[0]
		harness.Eventually(t, 20*time.Second, "fetching through the forwarded port", func() error { return fetch(ctx, "http://"+address+"/") })
		expect(t, m.Kubectl(ctx, "", "logs", "-n", ns, "web", "--tail=-1"), 0, "up")
		expect(t, m.Kubectl(ctx, "", "delete", "-n", ns, "pod/web", "--timeout=40s"), 0)
	})
}

func fetch(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
