package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLoad(t *testing.T) {
	const head = "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\n"
	for _, c := range []struct {
		name, file string
		want       func(*Embedded)
		err        string
	}{
		{"defaults", head, func(*Embedded) {}, ""},
		{"everything", head + "port: 7000\ntier: plain\nsimulateGPUs: 8xA100\nhostPorts: {first: 30000, last: 30010}\nimages: {\"tf/*\": /opt/tf, a: host}\nretention: {code: 0, environments: 1h30m, images: 24h, results: 48h}\n", func(c *Embedded) {
			c.Port, c.Tier, c.SimulateGPUs = 7000, TierPlain, "8xA100"
			c.HostPorts = &PortRange{30000, 30010}
			c.Retention = Retention{Code: 0, Environments: Duration(90 * time.Minute), Images: Duration(24 * time.Hour), Results: Duration(48 * time.Hour)}
			c.Images = Images{"tf/*": {Environment: "/opt/tf"}, "a": {Environment: "host"}}
		}, ""},
		{"a field misspelt", head + "prot: 1\n", nil, `unknown field "prot"`},
		{"no kind", "port: 1\n", func(c *Embedded) { c.Port = 1 }, ""},
		{"other kind", "apiVersion: v1\nkind: Pod\n", nil, "expected apiVersion: config.muster.dev/v1alpha1"},
		{"port", head + "port: 70000\n", nil, "allowed are 1 to 65535"},
		{"s3", head + "s3: {port: 9000}\n", func(c *Embedded) { c.S3.Port = 9000 }, ""},
		{"no s3", head + "s3: {disabled: true}\n", func(c *Embedded) { c.S3.Disabled = true }, ""},
		{"s3 port", head + "s3: {port: 65536}\n", nil, "s3: port 65536: allowed are 1 to 65535"},
		{"console", head + "console: {port: 9000, url: https://gpu.example.org/muster, proxies: [10.0.0.0/8, 127.0.0.1], address: 0.0.0.0}\n", func(c *Embedded) {
			c.Console = Console{Port: 9000, URL: "https://gpu.example.org/muster", Proxies: []string{"10.0.0.0/8", "127.0.0.1"}, Address: "0.0.0.0"}
		}, ""},
		{"console with a certificate", head + "console: {url: https://gpu.example.org:6490, certificate: /a.crt, key: /a.key}\n", func(c *Embedded) {
			c.Console = Console{URL: "https://gpu.example.org:6490", Certificate: "/a.crt", Key: "/a.key"}
		}, ""},
		{"console port", head + "console: {port: -1}\n", nil, "console: port -1: allowed are 1 to 65535"},
		{"console open to all", head + "console: {address: 0.0.0.0}\n", nil, "give a certificate and its key, or the proxies"},
		{"console address", head + "console: {address: box}\n", nil, `address "box": give an IP address`},
		{"console over http", head + "console: {url: http://gpu.example.org, proxies: [10.0.0.1]}\n", nil, "give https"},
		{"console below a slash", head + "console: {url: https://gpu.example.org/a/, proxies: [10.0.0.1]}\n", nil, "without an end slash"},
		{"console without TLS", head + "console: {url: https://gpu.example.org}\n", nil, "needs a certificate and its key, or the proxies"},
		{"console without url", head + "console: {proxies: [10.0.0.1]}\n", nil, "need url"},
		{"console key", head + "console: {certificate: /a.crt}\n", nil, "needs its key"},
		{"console file", head + "console: {certificate: a.crt, key: /a.key, url: https://a.example}\n", nil, "give an absolute path"},
		{"console with a provider", head + "console: {oidc: {issuer: https://sso.example.org, clientID: muster}}\n", nil, "oidc is for the manager of a cluster"},
		{"console proxies", head + "console: {proxies: [ten], url: https://a.example}\n", nil, `proxies: "ten": give an address or a network`},
		{"tier", head + "tier: strong\n", nil, "allowed are auto, plain and isolated"},
		{"ports", head + "hostPorts: {first: 9, last: 3}\n", nil, "first not above last"},
		{"one of two retentions", head + "retention: {code: 24h}\n", func(c *Embedded) { c.Retention.Code = Duration(24 * time.Hour) }, ""},
		{"retention in days", head + "retention: {code: 14d}\n", nil, `"14d" is not a time: give hours, minutes or seconds, such as 336h`},
		{"retention as a number", head + "retention: {code: 14}\n", nil, "14 is not a time: give hours"},
		{"retention below nothing", head + "retention: {environments: -1h}\n", nil, "retention: environments: -1h0m0s: give a time such as 336h, or 0"},
		{"a cache of data", head + "dataCache: 100Gi\n", func(c *Embedded) { c.DataCache = resource.MustParse("100Gi") }, ""},
		{"processes of a user", head + "userProcesses: 5000\n", func(c *Embedded) { c.UserProcesses = 5000 }, ""},
		{"hardly a process of a user", head + "userProcesses: 5\n", nil, "userProcesses 5: give at least 100"},
		{"hardly a cache of data", head + "dataCache: 100\n", nil, "dataCache 100: give at least 1Mi"},
		{"quotas", head + "quotas: {code: 5Gi, data: 100Gi}\n", func(c *Embedded) {
			c.Quotas = Quotas{Code: resource.MustParse("5Gi"), Data: resource.MustParse("100Gi")}
		}, ""},
		{"a quota of files", head + "quotas: {files: 50Gi}\n", func(c *Embedded) { c.Quotas.Files = resource.MustParse("50Gi") }, ""},
		{"hardly a quota of files", head + "quotas: {files: 1k}\n", nil, "quotas: files: 1k: give at least 1Mi"},
		{"hardly a quota", head + "quotas: {data: 100}\n", nil, "quotas: data: 100: give at least 1Mi"},
		{"a quota below nothing", head + "quotas: {code: -5Gi}\n", nil, "quotas: code: -5Gi: give at least 1Mi"},
		{"labels", head + "nodeLabels: {muster.dev/rack: r07, team: a}\n", func(c *Embedded) {
			c.NodeLabels = map[string]string{"muster.dev/rack": "r07", "team": "a"}
		}, ""},
		{"label key", head + "nodeLabels: {\"a b\": c}\n", nil, `"a b" is no key of a label`},
		{"label value", head + "nodeLabels: {muster.dev/rack: \"r 7\"}\n", nil, `muster.dev/rack: "r 7" is no value of a label`},
		{"label of Muster", head + "nodeLabels: {kubernetes.io/hostname: c}\n", nil, "is set by Muster itself"},
		{"image star", head + "images: {\"a*b\": host}\n", nil, "only at the end"},
		{"containerd", head + "containerd: /run/k3s/containerd/containerd.sock\n", func(c *Embedded) { c.Containerd = "/run/k3s/containerd/containerd.sock" }, ""},
		{"no containerd", head + "containerd: none\n", func(c *Embedded) { c.Containerd = NoContainerd }, ""},
		{"containerd's socket", head + "containerd: containerd.sock\n", nil, "neither the absolute path of containerd's socket nor none"},
		{"the command of an image", head + "images: {a: {environment: host, entrypoint: [python3, /x.py], command: [--lr, \"1\"], env: {A: b}, workingDir: /opt}}\n", func(c *Embedded) {
			c.Images = Images{"a": {Environment: "host", Entrypoint: []string{"python3", "/x.py"}, Command: []string{"--lr", "1"}, Env: map[string]string{"A": "b"}, WorkingDir: "/opt"}}
		}, ""},
		{"an image's field misspelt", head + "images: {a: {environment: host, entryPoint: [x], cmd: [y]}}\n", nil, `unknown field "cmd"`},
		{"an image without an environment", head + "images: {a: {entrypoint: [x]}}\n", nil, `images: "a": "" is neither an absolute folder`},
		{"an image's variable", head + "images: {a: {environment: host, env: {\"A=\": b}}}\n", nil, `images: "a": env: "A="`},
		{"an image's folder", head + "images: {a: {environment: host, workingDir: opt}}\n", nil, `workingDir "opt": give an absolute path`},
		{"image target", head + "images: {a: venv}\n", nil, "neither an absolute folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Load(path, true)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			c.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(path, false); err != nil {
		t.Errorf("not required: %v", err)
	}
	if _, err := Load(path, true); err == nil {
		t.Error("required: no error")
	}
}
