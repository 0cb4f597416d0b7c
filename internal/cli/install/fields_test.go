package install_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// judgment sorts the fields of a type that a user writes: a policy of the chart (see
// TestTenants) or a controller's check judges a field, or the field is harmless.
type judgment struct {
	of any
	// inner have fields of their own, each judged below.
	inner string
	// judged are refused, or held to the rights of the user, by a policy or a check.
	judged string
	// harmless lead to no queue, priority, account, secret, submitter or machine, and to no
	// label of Muster's.
	harmless string
}

// judgments are by type. A later field of an API is in no judgment, and fails the test.
var judgments = []judgment{
	{of: v1alpha1.TrainingJobSpec{}, inner: "roles code environment volumes data checkpoints", judged: "env queue priorityClassName",
		harmless: "framework topology expectedRunTime startTimeout resumable doneWhen cleanUp sparseCluster suspend restart backoffLimit activeDeadlineSeconds ttlSecondsAfterFinished"},
	{of: v1alpha1.Role{}, inner: "template", judged: "env indexLabels firstLabels",
		harmless: "name replicas minReplicas command script args gpus gpuMemory gpuModels spread resources restartPolicy portName"},
	{of: v1alpha1.JobVolume{}, judged: "claim", harmless: "name size mountPath readOnly"},
	{of: v1alpha1.Checkpoints{}, judged: "claim", harmless: "size none"},
	// A cluster refuses path and url; requirements are written anew before pip reads them.
	{of: v1alpha1.Environment{}, judged: "requirements indexSecret path", harmless: "python image"},
	{of: v1alpha1.Code{}, judged: "url", harmless: "snapshot"},
	{of: v1alpha1.JobData{}, harmless: "dataset branch version path mount lazy"},
	{of: v1alpha1.PipelineSpec{}, inner: "stages code environment", judged: "env queue", harmless: "description paused historyLimit"},
	{of: v1alpha1.Stage{}, inner: "code environment output training spark", judged: "env",
		harmless: "name input command script args stdin gpus gpuMemory gpuModels resources parallelism tries timeout onFailure batch impure acceptKeys mountPath"},
	{of: v1alpha1.StageOutput{}, judged: "egress egressSecret", harmless: "dataset branch"},
	{of: v1alpha1.SparkStage{}, harmless: "script args executors resources driverResources gpus gpuMemory gpuModels"},
	{of: v1alpha1.PipelineRunSpec{}, inner: "stages", judged: "queue pipeline", harmless: "number identity cause inputs recompute dryRun cancel"},
	{of: kubeflowv1.TFJobSpec{}, inner: "runPolicy tfReplicaSpecs", harmless: "successPolicy enableDynamicWorker"},
	{of: kubeflowv1.PyTorchJobSpec{}, inner: "runPolicy pytorchReplicaSpecs", harmless: "elasticPolicy nprocPerNode"},
	{of: kubeflowv1.RunPolicy{}, inner: "schedulingPolicy", judged: "managedBy", harmless: "cleanPodPolicy ttlSecondsAfterFinished activeDeadlineSeconds backoffLimit suspend"},
	{of: kubeflowv1.SchedulingPolicy{}, judged: "queue priorityClass", harmless: "minAvailable minResources scheduleTimeoutSeconds"},
	{of: kubeflowv1.ReplicaSpec{}, inner: "template", harmless: "replicas restartPolicy"},
	// Muster sets nodeName, schedulerName, restartPolicy, hostname and subdomain itself. The API
	// server refuses a priority and a preemptionPolicy that are not those of the class, gates of a
	// pod that has a node, and ephemeral containers of a new pod.
	{of: corev1.PodSpec{}, inner: "volumes initContainers containers securityContext",
		judged: "terminationGracePeriodSeconds resourceClaims serviceAccountName serviceAccount automountServiceAccountToken hostNetwork hostPID hostIPC imagePullSecrets priorityClassName " +
			"nodeName schedulerName restartPolicy hostname subdomain priority preemptionPolicy schedulingGates ephemeralContainers",
		harmless: "activeDeadlineSeconds dnsPolicy nodeSelector shareProcessNamespace affinity tolerations hostAliases dnsConfig readinessGates runtimeClassName enableServiceLinks " +
			"overhead topologySpreadConstraints setHostnameAsFQDN os hostUsers resources hostnameOverride schedulingGroup evictionResponders"},
	{of: corev1.Container{}, inner: "ports envFrom env securityContext lifecycle livenessProbe readinessProbe startupProbe",
		harmless: "name image command args workingDir resources resizePolicy restartPolicy restartPolicyRules volumeMounts volumeDevices " +
			"terminationMessagePath terminationMessagePolicy imagePullPolicy stdin stdinOnce tty"},
	{of: corev1.VolumeSource{}, inner: "projected",
		// Of ephemeral the source of its content is judged.
		judged: "ephemeral hostPath gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs persistentVolumeClaim rbd flexVolume cinder cephfs flocker fc azureFile vsphereVolume quobyte azureDisk " +
			"photonPersistentDisk portworxVolume scaleIO storageos csi",
		harmless: "emptyDir downwardAPI configMap image"},
	{of: corev1.VolumeProjection{}, judged: "secret serviceAccountToken podCertificate", harmless: "downwardAPI configMap clusterTrustBundle"},
	{of: corev1.PodSecurityContext{}, judged: "seLinuxOptions windowsOptions runAsUser sysctls seccompProfile appArmorProfile",
		harmless: "runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup fsGroupChangePolicy seLinuxChangePolicy"},
	{of: corev1.SecurityContext{}, judged: "capabilities privileged seLinuxOptions windowsOptions runAsUser procMount seccompProfile appArmorProfile",
		harmless: "runAsGroup runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation"},
	{of: corev1.HTTPGetAction{}, judged: "host", harmless: "path port scheme httpHeaders protocol"},
	{of: corev1.TCPSocketAction{}, judged: "host", harmless: "port"},
	{of: corev1.ContainerPort{}, judged: "hostPort", harmless: "name containerPort protocol hostIP"},
	{of: corev1.EnvVarSource{}, judged: "secretKeyRef", harmless: "fieldRef resourceFieldRef configMapKeyRef fileKeyRef"},
	{of: corev1.EnvFromSource{}, judged: "secretRef", harmless: "prefix configMapRef"},
}

// TestEachFieldIsJudged compares these lists with the types.
func TestEachFieldIsJudged(t *testing.T) {
	for _, j := range judgments {
		kind := reflect.TypeOf(j.of)
		var want []string
		for field := range kind.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" && field.Anonymous {
				continue
			}
			want = append(want, name)
		}
		got := strings.Fields(j.inner + " " + j.judged + " " + j.harmless)
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s.%s: say whether a policy or a check judges it, and try it in TestTenants, or why it is harmless", kind, name)
			}
		}
		for i, name := range got {
			if !slices.Contains(want, name) || slices.Contains(got[:i], name) {
				t.Errorf("%s has no field %s, or it is listed twice", kind, name)
			}
		}
	}
}
