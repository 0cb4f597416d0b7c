package admission

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// known lists, for each struct of a pod's spec, the fields that this package
// or the node looks at, or that are the scheduler's alone. A field that is set
// and not listed is refused.
var known = map[reflect.Type]map[string]bool{
	reflect.TypeFor[corev1.PodSpec](): names(`Volumes InitContainers Containers EphemeralContainers RestartPolicy
		TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy NodeSelector ServiceAccountName
		DeprecatedServiceAccount AutomountServiceAccountToken NodeName HostNetwork HostPID HostIPC
		ShareProcessNamespace SecurityContext ImagePullSecrets Hostname Subdomain Affinity SchedulerName Tolerations
		HostAliases PriorityClassName Priority DNSConfig ReadinessGates RuntimeClassName EnableServiceLinks
		PreemptionPolicy Overhead TopologySpreadConstraints SetHostnameAsFQDN OS HostUsers SchedulingGates
		ResourceClaims Resources HostnameOverride SchedulingGroup`),
	reflect.TypeFor[corev1.PodSecurityContext](): names(`SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot
		SupplementalGroups FSGroup Sysctls FSGroupChangePolicy SeccompProfile AppArmorProfile`),
	reflect.TypeFor[corev1.Container](): names(`Name Image Command Args WorkingDir Ports EnvFrom Env Resources ResizePolicy
		RestartPolicy RestartPolicyRules VolumeMounts VolumeDevices LivenessProbe ReadinessProbe StartupProbe Lifecycle
		TerminationMessagePath TerminationMessagePolicy ImagePullPolicy SecurityContext Stdin StdinOnce TTY`),
	reflect.TypeFor[corev1.SecurityContext](): names(`Capabilities Privileged SELinuxOptions WindowsOptions RunAsUser
		RunAsGroup RunAsNonRoot ReadOnlyRootFilesystem AllowPrivilegeEscalation ProcMount SeccompProfile AppArmorProfile`),
	reflect.TypeFor[corev1.VolumeMount](): names(`Name ReadOnly RecursiveReadOnly MountPath SubPath MountPropagation
		SubPathExpr BindMountOptions`),
	reflect.TypeFor[corev1.VolumeSource](): names(`HostPath EmptyDir Secret DownwardAPI ConfigMap Projected
		PersistentVolumeClaim CSI`),
	reflect.TypeFor[corev1.EmptyDirVolumeSource](): names(`Medium SizeLimit Mode`),
	reflect.TypeFor[corev1.VolumeProjection]():     names(`Secret DownwardAPI ConfigMap ServiceAccountToken`),
	reflect.TypeFor[corev1.EnvVarSource]():         names(`FieldRef ResourceFieldRef ConfigMapKeyRef SecretKeyRef`),
	reflect.TypeFor[corev1.Probe](): names(`ProbeHandler InitialDelaySeconds TimeoutSeconds PeriodSeconds
		SuccessThreshold FailureThreshold TerminationGracePeriodSeconds`),
	reflect.TypeFor[corev1.ProbeHandler]():         names(`Exec HTTPGet TCPSocket GRPC`),
	reflect.TypeFor[corev1.Lifecycle]():            names(`PostStart PreStop StopSignal`),
	reflect.TypeFor[corev1.LifecycleHandler]():     names(`Exec HTTPGet Sleep`),
	reflect.TypeFor[corev1.ContainerPort]():        names(`Name HostPort ContainerPort Protocol HostIP`),
	reflect.TypeFor[corev1.ResourceRequirements](): names(`Limits Requests Claims`),
}

func names(list string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(list) {
		set[name] = true
	}
	return set
}

// unknown refuses any field that is set and that nobody here knows.
func (c *check) unknown() {
	c.walk("spec", reflect.ValueOf(&c.pod.Spec).Elem())
}

// walk visits the structs that have an entry in known, and what they hold.
func (c *check) walk(at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.walk(at, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.walk(fmt.Sprintf("%s[%d]", at, i), v.Index(i))
		}
	case reflect.Struct:
		c.walkStruct(at, v)
	}
}

func (c *check) walkStruct(at string, v reflect.Value) {
	fields, listed := known[v.Type()]
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if v.Field(i).IsZero() || !field.IsExported() {
			continue
		}
		path := at
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			path += "." + name
		}
		if listed && !fields[field.Name] && !field.Anonymous {
			c.refuse(path, "%s", notHere)
			return
		}
		if inspect(field.Type) {
			c.walk(path, v.Field(i))
		}
	}
}

// inspect is true for types that lead to structs with an entry in known.
func inspect(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if _, ok := known[t]; ok {
		return true
	}
	return t == reflect.TypeFor[corev1.Volume]() || t == reflect.TypeFor[corev1.EnvVar]() ||
		t == reflect.TypeFor[corev1.ProjectedVolumeSource]()
}
