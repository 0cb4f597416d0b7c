package admission

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// containers checks every container.
func (c *check) containers() {
	c.allContainers(func(at string, ctr *corev1.Container, init bool) {
		c.container(at, ctr, init)
		c.security(at+"securityContext.", ctr, ctr.SecurityContext)
		c.user(at, ctr)
		c.resources(at+"resources.", ctr)
		c.handlers(at, ctr)
		for i := range ctr.VolumeMounts {
			c.mount(fmt.Sprintf("%svolumeMounts[%d].", at, i), ctr, &ctr.VolumeMounts[i])
		}
		for i := range ctr.Ports {
			c.port(fmt.Sprintf("%sports[%d].", at, i), &ctr.Ports[i])
		}
	})
	c.memberPort()
}

func (c *check) container(at string, ctr *corev1.Container, init bool) {
	sidecar := ctr.RestartPolicy != nil && *ctr.RestartPolicy == corev1.ContainerRestartPolicyAlways
	c.refuseIf(ctr.RestartPolicy != nil && (!init || !sidecar), at+"restartPolicy",
		"only Always on an init container can be honoured; remove it")
	c.refuseIf(len(ctr.RestartPolicyRules) > 0, at+"restartPolicyRules", "%s", notHere)
	c.refuseIf(len(ctr.VolumeDevices) > 0, at+"volumeDevices", "%s", notHere)
	c.image(at, ctr)
	last := ctr.TerminationMessagePath
	c.refuseIf(!c.apart(ctr) && last != "" && last != corev1.TerminationMessagePathDefault && !Below(path.Clean(last), v1alpha1.PodRoot),
		at+"terminationMessagePath", "%q is a path of the whole machine in the plain tier; use one below %s, which the container finds in $%s",
		last, v1alpha1.PodRoot, v1alpha1.EnvRoot)
}

// image checks that what the container names can be run. An image that stands
// for something on this machine has no command of its own.
func (c *check) image(at string, ctr *corev1.Container) {
	imaged := Imaged(c.facts.Images, ctr)
	for i := range ctr.VolumeMounts {
		where := fmt.Sprintf("%svolumeMounts[%d]", at, i)
		switch c.environment(ctr.VolumeMounts[i].Name) {
		case ofMachine:
			c.refuseIf(imaged, where, "is an environment for this machine's own Python, and the image %q has another one; give one of the two", ctr.Image)
		case ofImage:
			c.refuseIf(!imaged, where, "is an environment for the Python of an image, and %q stands for this machine's own; give one of the two", ctr.Image)
		}
	}
	if !imaged {
		to, _ := c.facts.Images.Find(ctr.Image)
		c.refuseIf(len(ctr.Command)+len(to.Entrypoint) == 0 && (len(ctr.Args) > 0 || len(to.Command) == 0), at+"command",
			"is empty, and the image %q has no entry point here: give the command to run, or the image's entrypoint in config.yaml, as in images: {%q: {environment: %s, entrypoint: [python3, /path/of/train.py]}}",
			ctr.Image, ctr.Image, cmp.Or(to.Environment, configuration.HostEnvironment))
		return
	}
	why := c.facts.NoImages
	if c.facts.Shared {
		why = "several users share this machine, where no images run yet"
	}
	c.refuseIf(why != "", at+"image", "this node cannot run the image %q: %s. "+
		"Or use %s for the machine's own Python, or map the image to an environment in config.yaml, "+
		"as in images: {%q: /path/of/a/venv} or {%q: host}", ctr.Image, why, HostImage, ctr.Image, ctr.Image)
}

// python says whose Python an environment is for.
type python int

const (
	ofNobody python = iota
	ofMachine
	ofImage
)

// environment says whose Python a volume of the pod is for, if it holds an environment.
func (c *check) environment(name string) python {
	for i := range c.pod.Spec.Volumes {
		v := &c.pod.Spec.Volumes[i]
		switch {
		case v.Name != name || v.CSI == nil || v.CSI.Driver != v1alpha1.EnvironmentDriver:
		case v.CSI.VolumeAttributes["image"] == "true", v.CSI.VolumeAttributes["build"] == "true":
			return ofImage
		default:
			return ofMachine
		}
	}
	return ofNobody
}

// Imaged is true for a container that runs in the files of an image, and not
// in those of this machine.
func Imaged(images configuration.Images, ctr *corev1.Container) bool {
	_, here := Environment(images, ctr.Image)
	return !here
}

// apart is true for a container that has a view of files of its own.
func (c *check) apart(ctr *corev1.Container) bool {
	return c.facts.Isolated || Imaged(c.facts.Images, ctr)
}

func (c *check) security(at string, ctr *corev1.Container, s *corev1.SecurityContext) {
	if s == nil {
		return
	}
	c.refuseIf(isTrue(s.Privileged), at+"privileged", "true %s", notHere)
	c.refuseIf(s.Capabilities != nil && len(s.Capabilities.Add)+len(s.Capabilities.Drop) > 0, at+"capabilities", "%s", notHere)
	c.refuseIf(s.SELinuxOptions != nil, at+"seLinuxOptions", "%s", notHere)
	c.refuseIf(s.WindowsOptions != nil, at+"windowsOptions", "%s", notHere)
	c.refuseIf(isTrue(s.ReadOnlyRootFilesystem) && !Imaged(c.facts.Images, ctr), at+"readOnlyRootFilesystem", "true %s", notHere)
	c.refuseIf(s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount, at+"procMount", "only Default can be honoured; remove it")
	c.seccomp(at+"seccompProfile", s.SeccompProfile)
	c.appArmor(at+"appArmorProfile", s.AppArmorProfile)
}

// user checks that the node may run the container as the user it asks for.
func (c *check) user(at string, ctr *corev1.Container) {
	uid, gid := User(c.pod, ctr)
	if uid != nil && !c.facts.Root {
		c.refuseIf(*uid != c.facts.UID, at+"securityContext.runAsUser",
			"%d cannot be honoured: this node is not root and runs everything as user %d; remove it", *uid, c.facts.UID)
	}
	if gid != nil && !c.facts.Root {
		c.refuseIf(*gid != c.facts.GID, at+"securityContext.runAsGroup",
			"%d cannot be honoured: this node is not root and runs everything as group %d; remove it", *gid, c.facts.GID)
	}
	if NonRoot(c.pod, ctr) && (uid != nil || !Imaged(c.facts.Images, ctr)) { // else the image says who it is
		effective := c.facts.UID
		if c.facts.Owner != nil {
			effective = c.facts.Owner.UID
		}
		if uid != nil {
			effective = *uid
		}
		c.refuseIf(effective == 0, at+"securityContext.runAsNonRoot", "true, and the container would run as root: set runAsUser")
	}
}

// User is the user and group that a container asks for: its own, else the
// pod's, else nil for the node's.
func User(pod *corev1.Pod, ctr *corev1.Container) (uid, gid *int64) {
	if s := pod.Spec.SecurityContext; s != nil {
		uid, gid = s.RunAsUser, s.RunAsGroup
	}
	if s := ctr.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			uid = s.RunAsUser
		}
		if s.RunAsGroup != nil {
			gid = s.RunAsGroup
		}
	}
	return uid, gid
}

// Confined is true for a container with mounts of its own that is to gain no rights from them: it runs
// as another user than root, and does not ask for the opposite by allowPrivilegeEscalation. The user
// is a number, or an account of its image ("user" or "user:group"); neither is the node's own.
func Confined(ctr *corev1.Container, uid *uint32, account string) bool {
	if s := ctr.SecurityContext; s != nil && isTrue(s.AllowPrivilegeEscalation) {
		return false
	}
	user, _, _ := strings.Cut(account, ":")
	return uid != nil && *uid != 0 || user != "" && user != "root" && strings.Trim(user, "0") != ""
}

// Unprivileged is true for a container that asks to gain no rights.
func Unprivileged(ctr *corev1.Container) bool {
	s := ctr.SecurityContext
	return s != nil && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation
}

// NonRoot is true for a container that must not run as root.
func NonRoot(pod *corev1.Pod, ctr *corev1.Container) bool {
	if s := ctr.SecurityContext; s != nil && s.RunAsNonRoot != nil {
		return *s.RunAsNonRoot
	}
	return pod.Spec.SecurityContext != nil && isTrue(pod.Spec.SecurityContext.RunAsNonRoot)
}

// refuseUnlessKept refuses a limit that this node does not keep.
func (c *check) refuseUnlessKept(field, kind string) {
	if why := c.facts.Limits.Refuses(kind); why != "" {
		c.refuse(field, "%s", why)
	}
}

// resources checks that every resource exists and every limit can be kept.
func (c *check) resources(at string, ctr *corev1.Container) {
	c.refuseIf(len(ctr.Resources.Claims) > 0, at+"claims", "%s", notHere)
	for _, name := range sortedNames(ctr.Resources.Limits) {
		field := at + "limits." + string(name)
		switch name {
		case corev1.ResourceMemory:
			c.refuseUnlessKept(field, "memory")
		case corev1.ResourceCPU:
			c.refuseUnlessKept(field, "CPU")
		case corev1.ResourceEphemeralStorage:
			c.refuse(field, "this node cannot enforce a limit on local files; remove the limit and keep the request")
		case v1alpha1.ResourceGPU, v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory:
		default:
			c.refuse(field, "this node has no such resource")
		}
	}
	for _, name := range sortedNames(ctr.Resources.Requests) {
		switch name {
		case corev1.ResourceMemory, corev1.ResourceCPU, corev1.ResourceEphemeralStorage,
			v1alpha1.ResourceGPU, v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory:
		default:
			c.refuse(at+"requests."+string(name), "this node has no such resource")
		}
	}
}

// handlers checks probes and hooks.
func (c *check) handlers(at string, ctr *corev1.Container) {
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", ctr.LivenessProbe}, {"readinessProbe", ctr.ReadinessProbe}, {"startupProbe", ctr.StartupProbe}} {
		if p.probe == nil {
			continue
		}
		c.refuseIf(p.probe.GRPC != nil, at+p.name+".grpc", "use exec, httpGet or tcpSocket: gRPC probes are not implemented by this node")
		c.hosts(at+p.name+".", p.probe.HTTPGet, p.probe.TCPSocket)
	}
	if l := ctr.Lifecycle; l != nil {
		for name, h := range map[string]*corev1.LifecycleHandler{"postStart": l.PostStart, "preStop": l.PreStop} {
			if h != nil {
				c.hosts(at+"lifecycle."+name+".", h.HTTPGet, nil)
			}
		}
	}
	if l := ctr.Lifecycle; l != nil && l.StopSignal != nil {
		c.refuseIf(*l.StopSignal != corev1.SIGTERM, at+"lifecycle.stopSignal", "%s cannot be honoured: containers are stopped with SIGTERM; remove it", *l.StopSignal)
	}
}

// hosts checks that a probe or hook asks the pod itself: the node asks with its own rights.
func (c *check) hosts(at string, get *corev1.HTTPGetAction, connect *corev1.TCPSocketAction) {
	own := func(host string) bool {
		return host == "" || (!c.facts.Isolated || c.pod.Spec.HostNetwork) && (host == "localhost" || host == "127.0.0.1")
	}
	if get != nil {
		c.refuseIf(!own(get.Host), at+"httpGet.host", "%q is not the pod's own address: leave it out, and give a Host header in httpHeaders if the program needs one", get.Host)
	}
	if connect != nil {
		c.refuseIf(!own(connect.Host), at+"tcpSocket.host", "%q is not the pod's own address: leave it out", connect.Host)
	}
}

// Declares is true for a port of TCP that a container of the pod declares, or that the scheduler gave it.
func Declares(pod *corev1.Pod, port int32) bool {
	if port == MemberPort(pod) {
		return port != 0
	}
	for _, ctr := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range ctr.Ports {
			if p.ContainerPort == port && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "") {
				return true
			}
		}
	}
	return false
}

// mount checks one volume mount.
func (c *check) mount(at string, ctr *corev1.Container, m *corev1.VolumeMount) {
	c.refuseIf(m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled, at+"recursiveReadOnly", "%s", notHere)
	c.refuseIf(m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone, at+"mountPropagation", "%s", notHere)
	c.refuseIf(len(m.BindMountOptions) > 0, at+"bindMountOptions", "%s", notHere)
	clean := path.Clean(m.MountPath)
	c.refuseIf(clean == ".." || strings.HasPrefix(clean, "../"), at+"mountPath", "%q leaves the working directory", m.MountPath)
	if c.apart(ctr) {
		c.refuseIf(clean == "/", at+"mountPath", "a volume cannot be mounted at /")
		return
	}
	if path.IsAbs(clean) && !Below(clean, v1alpha1.PodRoot) && !AutomaticToken(c.pod, m) {
		c.refuse(at+"mountPath", "%q cannot be mounted: pods share the machine's file system in the plain tier. "+
			"Mount it below %s (the container finds that folder in $%s), or give a path relative to the working directory",
			m.MountPath, v1alpha1.PodRoot, v1alpha1.EnvRoot)
	}
	c.place(at, ctr, m)
	c.refuseIf(m.ReadOnly && writable(c.pod, m.Name), at+"readOnly",
		"true cannot be enforced in the plain tier; remove it")
}

// writable is true for a volume whose files a container could change.
func writable(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name == name {
			return v.HostPath != nil || v.EmptyDir != nil || v.PersistentVolumeClaim != nil ||
				(v.CSI != nil && v.CSI.Driver == v1alpha1.CodeDriver)
		}
	}
	return false
}

// port checks one declared port.
func (c *check) port(at string, p *corev1.ContainerPort) {
	shared := !c.facts.Isolated || c.pod.Spec.HostNetwork
	if !shared {
		c.refuseIf(p.HostPort != 0, at+"hostPort", "%d cannot be honoured: pods have addresses of their own here; use a Service, kubectl port-forward or hostNetwork: true", p.HostPort)
		return
	}
	c.refuseIf(p.HostPort != 0 && p.HostPort != p.ContainerPort, at+"hostPort",
		"%d cannot be mapped to %d: the pod shares the machine's network; make them equal", p.HostPort, p.ContainerPort)
	c.refuseIf(p.HostIP != "" && p.HostIP != "0.0.0.0", at+"hostIP", "%s", notHere)
	c.free(at+"containerPort", p.Protocol, p.ContainerPort)
}

// memberPort checks the port that the scheduler gave a member.
func (c *check) memberPort() {
	if c.facts.Isolated && !c.pod.Spec.HostNetwork {
		return
	}
	if port := MemberPort(c.pod); port != 0 {
		c.free("metadata.annotations["+v1alpha1.AnnotationPort+"]", corev1.ProtocolTCP, port)
	}
}

func (c *check) free(field string, protocol corev1.Protocol, port int32) {
	if c.facts.PortHolder == nil || port == 0 {
		return
	}
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	if holder := c.facts.PortHolder(protocol, port); holder != "" {
		c.refuseForNow(field, "port %d is taken by %s; pods share the machine's network here, so choose another port or stop it", port, holder)
	}
}
