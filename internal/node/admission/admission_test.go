package admission

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/limits"
)

// pod is an admissible pod, changed by the edits.
func pod(edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: HostImage, Command: []string{"python3"},
				VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/muster/v"}},
			}},
		},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func first(f func(*corev1.Container)) func(*corev1.Pod) {
	return func(p *corev1.Pod) { f(&p.Spec.Containers[0]) }
}

func mount(f func(*corev1.VolumeMount)) func(*corev1.Pod) {
	return first(func(c *corev1.Container) { f(&c.VolumeMounts[0]) })
}

func source(s corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Volumes[0].VolumeSource = s }
}

// mounted has the first volume be from s, mounted read-only at a path.
func mounted(s corev1.VolumeSource, at string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		source(s)(p)
		m := &p.Spec.Containers[0].VolumeMounts[0]
		m.MountPath, m.ReadOnly = at, true
	}
}

// probed has the first container be asked at a host.
func probed(host string) func(*corev1.Pod) {
	return first(func(c *corev1.Container) {
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host}}}
	})
}

// nested has a second volume be mounted at a path, the first one being from s.
func nested(s corev1.VolumeSource, at string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		source(s)(p)
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "inner", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "inner", MountPath: at})
	}
}

// dataless is a volume of a driver of this node that needs no data store.
func dataless(driver string) corev1.VolumeSource {
	return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver, VolumeAttributes: map[string]string{"snapshot": "sha256:1", "path": "/venv"}}}
}

func limit(name corev1.ResourceName, amount string) func(*corev1.Pod) {
	return first(func(c *corev1.Container) {
		c.Resources.Limits = corev1.ResourceList{name: resource.MustParse(amount)}
	})
}

func security(s corev1.SecurityContext) func(*corev1.Pod) {
	return first(func(c *corev1.Container) { c.SecurityContext = &s })
}

func gpus(annotation, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationGPUs] = annotation
		limit(v1alpha1.ResourceGPU, amount)(p)
	}
}

func ptr[T any](v T) *T { return &v }

func plain() Facts {
	return Facts{
		Root: true,
		GPUs: map[string]GPU{"a": {}, "b": {Use: Use{Holders: []string{"pod x/y"}, Share: Share{Milli: 1000}}}, "c": {Unhealthy: "it fell off the bus"}},
		PortHolder: func(_ corev1.Protocol, port int32) string {
			if port == 80 {
				return "process 7 (nginx)"
			}
			return ""
		},
		Images: configuration.Images{"tensorflow/*": {Environment: "/venvs/tf"}, "entry": {Environment: "host", Entrypoint: []string{"x"}}, "cmd": {Environment: "host", Command: []string{"x"}}}, NoImages: "there is no containerd", Limits: limits.Of(false, "control groups are read-only"),
	}
}

func dataOf(commit string) corev1.VolumeSource {
	return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver, VolumeAttributes: map[string]string{"commit": commit}}}
}

func isolated() Facts {
	f := plain()
	f.Isolated, f.Limits = true, limits.Kept{}
	return f
}

func TestAdmit(t *testing.T) {
	const c = "spec.containers[0]."
	cases := []struct {
		name            string
		edit            func(*corev1.Pod)
		plain, isolated string // the refused field; empty: admitted
	}{
		{"as it is", func(*corev1.Pod) {}, "", ""},
		{"ephemeral containers", func(p *corev1.Pod) { p.Spec.EphemeralContainers = make([]corev1.EphemeralContainer, 1) }, "spec.ephemeralContainers", "spec.ephemeralContainers"},
		{"hostPID", func(p *corev1.Pod) { p.Spec.HostPID = true }, "", "spec.hostPID"},
		{"hostIPC", func(p *corev1.Pod) { p.Spec.HostIPC = true }, "", "spec.hostIPC"},
		{"shared processes", func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = ptr(true) }, "", "spec.shareProcessNamespace"},
		{"host aliases", func(p *corev1.Pod) { p.Spec.HostAliases = make([]corev1.HostAlias, 1) }, "spec.hostAliases", ""},
		{"DNS", func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{} }, "spec.dnsConfig", ""},
		{"runtime class", func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr("gvisor") }, "spec.runtimeClassName", "spec.runtimeClassName"},
		{"resource claims", func(p *corev1.Pod) { p.Spec.ResourceClaims = make([]corev1.PodResourceClaim, 1) }, "spec.resourceClaims", "spec.resourceClaims"},
		{"a field nobody knows", func(p *corev1.Pod) { p.Spec.EvictionResponders = make([]corev1.EvictionResponder, 1) }, "spec.evictionResponders", "spec.evictionResponders"},
		{"fsGroup", func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr(int64(1))} }, "spec.securityContext.fsGroup", "spec.securityContext.fsGroup"},
		{"seccomp default", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
		}, "spec.securityContext.seccompProfile", "spec.securityContext.seccompProfile"},
		{"privileged", security(corev1.SecurityContext{Privileged: ptr(true)}), c + "securityContext.privileged", c + "securityContext.privileged"},
		{"not privileged", security(corev1.SecurityContext{Privileged: ptr(false), AllowPrivilegeEscalation: ptr(true)}), "", ""},
		{"no escalation", security(corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false)}), "", ""},
		{"capabilities", security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}), c + "securityContext.capabilities", c + "securityContext.capabilities"},
		{"another user", security(corev1.SecurityContext{RunAsUser: ptr(int64(1000)), RunAsNonRoot: ptr(true)}), "", ""},
		{"not root, as root", security(corev1.SecurityContext{RunAsNonRoot: ptr(true)}), c + "securityContext.runAsNonRoot", c + "securityContext.runAsNonRoot"},
		{"an image", first(func(c *corev1.Container) { c.Image = "nginx:1" }), c + "image", c + "image"},
		{"a mapped image", first(func(c *corev1.Container) { c.Image = "docker.io/tensorflow/tensorflow:2" }), "", ""},
		{"no command, and an entry point", first(func(c *corev1.Container) { c.Image, c.Command = "entry", nil }), "", ""},
		{"no command, and the image's", first(func(c *corev1.Container) { c.Image, c.Command = "cmd", nil }), "", ""},
		{"args in place of the image's command", first(func(c *corev1.Container) { c.Image, c.Command, c.Args = "cmd", nil, []string{"y"} }), c + "command", c + "command"},
		{"no command, mapped to an environment alone", first(func(c *corev1.Container) { c.Image, c.Command = "tensorflow/tensorflow:2", nil }), c + "command", c + "command"},
		{"no command", first(func(c *corev1.Container) { c.Command = nil }), c + "command", c + "command"},
		{"memory limit", limit("memory", "1Gi"), c + "resources.limits.memory", ""},
		{"CPU limit", limit("cpu", "1"), c + "resources.limits.cpu", ""},
		{"disk limit", limit("ephemeral-storage", "1Gi"), c + "resources.limits.ephemeral-storage", c + "resources.limits.ephemeral-storage"},
		{"unknown resource", limit("example.com/fpga", "1"), c + "resources.limits.example.com/fpga", c + "resources.limits.example.com/fpga"},
		{"absolute mount", mount(func(m *corev1.VolumeMount) { m.MountPath = "/data" }), c + "volumeMounts[0].mountPath", ""},
		{"relative mount", mount(func(m *corev1.VolumeMount) { m.MountPath = "data" }), "", ""},
		{"relative mount below the pod's root", first(func(c *corev1.Container) { c.WorkingDir, c.VolumeMounts[0].MountPath = "/muster/work", "data" }), "", ""},
		{"relative mount below a relative folder", first(func(c *corev1.Container) { c.WorkingDir, c.VolumeMounts[0].MountPath = "work", "data" }), "", ""},
		{"relative mount in a folder of the machine", first(func(c *corev1.Container) { c.WorkingDir, c.VolumeMounts[0].MountPath = "/etc", "cron.d/data" }), c + "volumeMounts[0].mountPath", ""},
		{"relative mount beside the pod's root", first(func(c *corev1.Container) { c.WorkingDir, c.VolumeMounts[0].MountPath = "/muster/../etc", "data" }), c + "volumeMounts[0].mountPath", ""},
		{"mount in code", nested(dataless(v1alpha1.CodeDriver), "/muster/v/data"), "", ""},
		{"mount in an emptyDir", nested(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "/muster/v/data"), "", ""},
		{"mount in a host path", nested(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}, "/muster/v/data"), c + "volumeMounts[1].mountPath", ""},
		{"relative mount in a host path", func(p *corev1.Pod) {
			nested(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}, "data")(p)
			p.Spec.Containers[0].WorkingDir = "/muster/v"
		}, c + "volumeMounts[1].mountPath", ""},
		{"mount in a claim", nested(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}, "/muster/v/data"), c + "volumeMounts[1].mountPath", ""},
		{"mount in data", nested(dataOf(strings.Repeat("a", 64)), "/muster/v/data"), c + "volumeMounts[1].mountPath", ""},
		{"mount in an environment", nested(dataless(v1alpha1.EnvironmentDriver), "/muster/v/bin/python"), c + "volumeMounts[1].mountPath", ""},
		{"a probe of another host", probed("192.0.2.1"), c + "livenessProbe.httpGet.host", c + "livenessProbe.httpGet.host"},
		{"a probe of the machine", probed("127.0.0.1"), "", c + "livenessProbe.httpGet.host"},
		{"a probe of the machine by a name", probed("localhost"), "", c + "livenessProbe.httpGet.host"},
		{"a probe of the pod", probed(""), "", ""},
		{"a socket of another host", first(func(c *corev1.Container) {
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "192.0.2.1"}}}
		}), c + "readinessProbe.tcpSocket.host", c + "readinessProbe.tcpSocket.host"},
		{"a hook at another host", first(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.1"}}}
		}), c + "lifecycle.preStop.httpGet.host", c + "lifecycle.preStop.httpGet.host"},
		{"mount outside", mount(func(m *corev1.VolumeMount) { m.MountPath = "../data" }), c + "volumeMounts[0].mountPath", c + "volumeMounts[0].mountPath"},
		{"read-only", mount(func(m *corev1.VolumeMount) { m.ReadOnly = true }), c + "volumeMounts[0].readOnly", ""},
		{"propagation", mount(func(m *corev1.VolumeMount) { m.MountPropagation = ptr(corev1.MountPropagationBidirectional) }), c + "volumeMounts[0].mountPropagation", c + "volumeMounts[0].mountPropagation"},
		{"NFS", source(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), "spec.volumes[0].nfs", "spec.volumes[0].nfs"},
		{"memory folder", source(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}), "spec.volumes[0].emptyDir.medium", ""},
		{"data", mounted(dataOf(strings.Repeat("3f", 32)), "/muster/data/digits"), "", ""},
		{"data anywhere", mounted(dataOf(strings.Repeat("3f", 32)), "/data"), c + "volumeMounts[0].mountPath", ""},
		{"data of a branch", source(dataOf("main")), "spec.volumes[0].csi.volumeAttributes", "spec.volumes[0].csi.volumeAttributes"},
		{"a post of a stage, for one user", source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.StageDriver, VolumeAttributes: map[string]string{"work": "a.s"}}}), "spec.volumes[0].csi.driver", "spec.volumes[0].csi.driver"},
		{"another driver", source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "nfs.csi"}}), "spec.volumes[0].csi.driver", "spec.volumes[0].csi.driver"},
		{"gRPC probe", first(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}
		}), c + "livenessProbe.grpc", c + "livenessProbe.grpc"},
		{"a port", first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 2222}} }), "", ""},
		{"a taken port", first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80}} }), c + "ports[0].containerPort", ""},
		{"a host port", first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 81, HostPort: 81}} }), "", c + "ports[0].hostPort"},
		{"a taken member port", func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationPort] = "80" }, "metadata.annotations[muster.dev/port]", ""},
		{"a GPU", gpus("a", "1"), "", ""},
		{"a held GPU", gpus("b", "1"), "metadata.annotations[muster.dev/gpus]", "metadata.annotations[muster.dev/gpus]"},
		{"a broken GPU", gpus("c", "1"), "metadata.annotations[muster.dev/gpus]", "metadata.annotations[muster.dev/gpus]"},
		{"a GPU elsewhere", gpus("z", "1"), "metadata.annotations[muster.dev/gpus]", "metadata.annotations[muster.dev/gpus]"},
		{"a GPU twice", gpus("a,a", "2"), "metadata.annotations[muster.dev/gpus]", "metadata.annotations[muster.dev/gpus]"},
		{"too few GPUs named", gpus("", "1"), "metadata.annotations[muster.dev/gpus]", "metadata.annotations[muster.dev/gpus]"},
		{"file key", first(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}}}
		}), "", ""},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			for tier, facts := range map[string]Facts{"plain": plain(), "isolated": isolated()} {
				want := test.plain
				if tier == "isolated" {
					want = test.isolated
				}
				got := ""
				if r := Admit(pod(test.edit), facts); r != nil {
					got = r.Field
				}
				if test.name == "file key" {
					want = "spec.containers[0].env[0].valueFrom.fileKeyRef"
				}
				if got != want {
					t.Errorf("%s: refused %q, want %q", tier, got, want)
				}
			}
		})
	}
}

// TestPassing tells what may be free again in a while from what stays, and
// names the latter first.
func TestPassing(t *testing.T) {
	port := first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80}} })
	image := first(func(c *corev1.Container) { c.Image = "nginx:1" })
	cases := []struct {
		name    string
		edit    func(*corev1.Pod)
		passing bool
		field   string
	}{
		{"a taken port", port, true, "spec.containers[0].ports[0].containerPort"},
		{"a held GPU", gpus("b", "1"), true, "metadata.annotations[muster.dev/gpus]"},
		{"a broken GPU", gpus("c", "1"), true, "metadata.annotations[muster.dev/gpus]"},
		{"a GPU elsewhere", gpus("z", "1"), true, "metadata.annotations[muster.dev/gpus]"},
		{"a GPU twice", gpus("a,a", "2"), false, "metadata.annotations[muster.dev/gpus]"},
		{"an image", image, false, "spec.containers[0].image"},
		{"a memory limit", limit("memory", "1Gi"), false, "spec.containers[0].resources.limits.memory"},
		{"an absolute mount", mount(func(m *corev1.VolumeMount) { m.MountPath = "/data" }), false, "spec.containers[0].volumeMounts[0].mountPath"},
		{"a taken port and then an image", func(p *corev1.Pod) {
			port(p)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "nginx:1", Command: []string{"true"}})
		}, false, "spec.containers[1].image"},
		{"a taken port and then too few GPUs", func(p *corev1.Pod) {
			port(p)
			gpus("", "1")(p)
		}, false, "metadata.annotations[muster.dev/gpus]"},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			r := Admit(pod(test.edit), plain())
			if r == nil || r.Passing != test.passing || r.Field != test.field {
				t.Errorf("got %+v, want passing %v and %s", r, test.passing, test.field)
			}
		})
	}
}

func TestAutomaticTokenIsAdmitted(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Spec.Volumes[0] = corev1.Volume{Name: "kube-api-access-x1", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
		p.Spec.Containers[0].VolumeMounts[0] = corev1.VolumeMount{Name: "kube-api-access-x1", MountPath: TokenPath, ReadOnly: true}
	})
	if r := Admit(p, plain()); r != nil {
		t.Error(r)
	}
}

// TestKnownFieldsExist keeps the list of known fields free of names that the
// API does not have.
func TestKnownFieldsExist(t *testing.T) {
	for typ, fields := range known {
		for name := range fields {
			if _, ok := typ.FieldByName(name); !ok {
				t.Errorf("%s has no field %s", typ, name)
			}
		}
	}
	if !inspect(reflect.TypeFor[[]corev1.Container]()) {
		t.Error("containers are not looked into")
	}
}

func TestEnvironment(t *testing.T) {
	images := configuration.Images{
		"tensorflow/*": {Environment: "/any"}, "tensorflow/tensorflow:2*": {Environment: "/two"}, "python:3.11": {Environment: "host"}, "busybox": {Environment: "/box"},
	}
	cases := []struct {
		image, folder string
		ok            bool
	}{
		{HostImage, "", true},
		{"tensorflow/tensorflow:1.15", "/any", true},
		{"docker.io/tensorflow/tensorflow:2.16-gpu", "/two", true},
		{"python:3.11", "", true},
		{"docker.io/library/python:3.11", "", true},
		{"python:3.12", "", false},
		{"busybox", "/box", true},
		{"busybox:latest", "", false},
	}
	for _, c := range cases {
		if folder, ok := Environment(images, c.image); folder != c.folder || ok != c.ok {
			t.Errorf("%s: got %q %v, want %q %v", c.image, folder, ok, c.folder, c.ok)
		}
	}
}

func TestAssign(t *testing.T) {
	p := pod(gpus("a,b,c", "1"), func(p *corev1.Pod) {
		second := p.Spec.Containers[0]
		second.Name = "second"
		second.Resources.Limits = corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("2")}
		third := corev1.Container{Name: "third"}
		p.Spec.Containers = append(p.Spec.Containers, second, third)
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: second.Resources}}
	})
	want := map[string][]string{"init": {"a", "b"}, "main": {"a"}, "second": {"b", "c"}}
	if diff := cmp.Diff(want, Assign(p)); diff != "" {
		t.Error(diff)
	}
}

func TestMessagesSayWhatToDo(t *testing.T) {
	r := Admit(pod(mount(func(m *corev1.VolumeMount) { m.MountPath = "/data" })), plain())
	for _, word := range []string{"/data", "/muster", "$MUSTER_ROOT"} {
		if !strings.Contains(r.Error(), word) {
			t.Errorf("%q does not mention %s", r, word)
		}
	}
}

// A container in an image has its own files in each tier, a command, and a
// user; what else the tier has for all pods holds for it, too.
func TestImages(t *testing.T) {
	at := func(path string) func(*corev1.Pod) {
		return first(func(c *corev1.Container) {
			c.Image, c.Command = "nginx:1", nil
			c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: path, ReadOnly: true}}
		})
	}
	yes, zero := true, int64(0)
	for _, c := range []struct {
		name   string
		edit   func(*corev1.Pod)
		why    string
		refuse string // the field
	}{
		{"a command of its own", first(func(c *corev1.Container) { c.Image, c.Command = "nginx:1", nil }), "", ""},
		{"a mount anywhere", at("/data"), "", ""},
		{"a mount over everything", at("/"), "", "spec.containers[0].volumeMounts[0].mountPath"},
		{"its last words anywhere", first(func(c *corev1.Container) { c.Image, c.TerminationMessagePath = "nginx:1", "/tmp/last" }), "", ""},
		{"not root, as the image says", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image = "nginx:1"
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes}
		}, "", ""},
		{"not root, and root", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image = "nginx:1"
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &zero}
		}, "", "spec.containers[0].securityContext.runAsNonRoot"},
		{"read-only", first(func(c *corev1.Container) {
			c.Image, c.SecurityContext = "nginx:1", &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes}
		}), "", ""},
		{"with an environment of this machine's", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "env", VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.EnvironmentDriver, ReadOnly: &yes, VolumeAttributes: map[string]string{"key": "k"}},
			}}}
			p.Spec.Containers[0].Image = "nginx:1"
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "env", MountPath: v1alpha1.PodRoot + "/env", ReadOnly: true}}
		}, "this machine's own Python", "spec.containers[0].volumeMounts[0]"},
		{"no containerd", first(func(c *corev1.Container) { c.Image = "nginx:1" }), "there is no containerd", "spec.containers[0].image"},
	} {
		for _, isolated := range []bool{false, true} {
			p := pod(c.edit)
			refusal := Admit(p, Facts{Isolated: isolated, Root: true, NoImages: c.why})
			switch {
			case refusal == nil && c.refuse != "", refusal != nil && refusal.Field != c.refuse:
				t.Errorf("%s (isolated: %v): refused %v, want the field %q", c.name, isolated, refusal, c.refuse)
			case refusal != nil && !strings.Contains(refusal.Message, c.why):
				t.Errorf("%s: %q does not say %q", c.name, refusal.Message, c.why)
			}
		}
	}
}

// TestWhoseJob: a pod that names a job names the one that owns it.
func TestWhoseJob(t *testing.T) {
	for name, c := range map[string]struct {
		owner, named, says string
	}{
		"no job":              {"", "", ""},
		"its own":             {"mine", "mine", ""},
		"a copy of its own":   {"mine", "", ""},
		"another":             {"mine", "theirs", `spec.volumes[0].csi.volumeAttributes: job "theirs": the TrainingJob with UID mine owns this pod, so name that or leave job out`},
		"a folder":            {"mine", "../pods", `spec.volumes[0].csi.volumeAttributes: job "../pods": the TrainingJob with UID mine owns this pod, so name that or leave job out`},
		"a pod without a job": {"", "theirs", `spec.volumes[0].csi.volumeAttributes: job "theirs": no TrainingJob owns this pod, so leave job out`},
	} {
		t.Run(name, func(t *testing.T) {
			facts := plain()
			facts.Job = types.UID(c.owner)
			r := Admit(pod(source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver: v1alpha1.CodeDriver, VolumeAttributes: map[string]string{"snapshot": "sha256:ab", "job": c.named},
			}})), facts)
			switch {
			case c.says == "" && r != nil, c.says != "" && (r == nil || r.Error() != c.says):
				t.Errorf("refused: %v, want %q", r, c.says)
			case r != nil && r.Passing:
				t.Error("it is tried again")
			}
		})
	}
}

// TestWhoseEnvironment: an environment is used by programs of whose Python it is, and is
// built by a pod that Muster made for that, in an image.
func TestWhoseEnvironment(t *testing.T) {
	key := strings.Repeat("ab", 32)
	uses := func(more ...string) map[string]string {
		out := map[string]string{"key": key}
		for _, name := range more {
			out[name] = "true"
		}
		return out
	}
	const (
		attributes = "spec.volumes[0].csi.volumeAttributes"
		mounts     = "spec.containers[0].volumeMounts[0]"
		box        = "box:1"
	)
	for _, c := range []struct {
		name       string
		image      string
		attributes map[string]string
		label      string
		field      string // which is refused; empty: it is admitted
	}{
		{"the machine's, for its programs", HostImage, uses(), "", ""},
		{"the machine's, for what stands for them", "tensorflow/x", uses(), "", ""},
		{"the machine's, in an image", box, uses(), "", mounts},
		{"an image's, in an image", box, uses("image"), "", ""},
		{"an image's, for the machine's programs", HostImage, uses("image"), "", mounts},
		{"an image's, for what stands for them", "tensorflow/x", uses("image"), "", mounts},
		{"built by Muster", box, uses("build"), key[:63], ""},
		{"built by Muster, of this machine's programs", HostImage, uses("build"), key[:63], mounts},
		{"built by somebody", box, uses("build"), "", attributes},
		{"built by who builds another one", box, uses("build"), strings.Repeat("cd", 31) + "c", attributes},
		{"built below another name", box, map[string]string{"key": key[:63] + "/../x", "build": "true"}, key[:63], attributes},
		{"built, of half a key", box, map[string]string{"key": key[:63], "build": "true"}, key[:63], attributes},
	} {
		for tier, facts := range map[string]Facts{"plain": plain(), "isolated": isolated()} {
			t.Run(c.name+", "+tier, func(t *testing.T) {
				facts.NoImages = ""
				r := Admit(pod(func(p *corev1.Pod) {
					p.Labels = map[string]string{v1alpha1.LabelBuild: c.label}
					p.Spec.Containers[0].Image = c.image
					source(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.EnvironmentDriver, VolumeAttributes: c.attributes}})(p)
				}), facts)
				if got := fieldOf(r); got != c.field {
					t.Errorf("refused %q (%v), want %q", got, r, c.field)
				}
			})
		}
	}
}

func fieldOf(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Field
}

func TestConfined(t *testing.T) {
	for _, c := range []struct {
		name     string
		escalate *bool
		uid      *uint32
		account  string
		want     bool
	}{
		{"the node's user", nil, nil, "", false},
		{"root", nil, ptr(uint32(0)), "", false},
		{"another user", nil, ptr(uint32(1000)), "", true},
		{"another user that wants to escalate", ptr(true), ptr(uint32(1000)), "", false},
		{"another user that does not", ptr(false), ptr(uint32(1000)), "", true},
		{"root of an image", nil, nil, "root:1000", false},
		{"root of an image by number", nil, nil, "0:0", false},
		{"root of an image by a longer number", nil, nil, "000", false},
		{"a number of an image", nil, nil, "1000", true},
		{"a name of an image", nil, nil, "jupyter:users", true},
	} {
		ctr := &corev1.Container{SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: c.escalate}}
		if got := Confined(ctr, c.uid, c.account); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
