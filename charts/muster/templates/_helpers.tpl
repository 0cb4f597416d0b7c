{{/* Labels of everything. */}}
{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/part-of: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Labels by which the manager's pods are selected: they never change. */}}
{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/component: manager
{{- end }}

{{/* Who the manager is to the API server. `muster up` sets machine; a chart's values never do. */}}
{{- define "muster.user" -}}
{{- if .Values.machine }}{{ .Values.machine.manager }}{{ else }}system:serviceaccount:{{ .Release.Namespace }}:muster-manager{{ end }}
{{- end }}

{{/* The objects of its own namespace that the manager makes: names, as a list of YAML and of CEL. */}}
{{- define "muster.leases" -}}
['muster-manager', 'muster-scheduler-epoch']
{{- end }}

{{- define "muster.configmaps" -}}
['muster-door', 'muster-forecasts']
{{- end }}

{{/* The Secrets that hold the keys of S3 clients. */}}
{{- define "muster.keys" -}}
['muster-access-keys-0', 'muster-access-keys-1', 'muster-access-keys-2', 'muster-access-keys-3', 'muster-access-keys-4', 'muster-access-keys-5', 'muster-access-keys-6', 'muster-access-keys-7']
{{- end }}

{{- define "muster.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* The users whom no policy holds: the manager and those of the values. */}}
{{- define "muster.exempt" -}}
{{- $users := list (include "muster.user" .) -}}
{{- concat $users .Values.policies.exemptUsers | toJson -}}
{{- end }}

{{/* The resources that are GPUs, or parts of them, as a list in CEL. */}}
{{- define "muster.gpus" -}}
{{- concat .Values.gpuResources (list "muster.dev/gpu-milli" "muster.dev/gpu-memory") | toJson | replace "\"" "'" -}}
{{- end }}

{{/* Cluster machinery that deletes, collects and lets go on others' behalf. */}}
{{- define "muster.machinery" -}}
request.userInfo.username == 'system:kube-controller-manager' || request.userInfo.username in ['system:serviceaccount:kube-system:generic-garbage-collector', 'system:serviceaccount:kube-system:namespace-controller', 'system:serviceaccount:kube-system:resource-claim-controller']
{{- end }}

{{/* A policy's binding: everywhere. */}}
{{- define "muster.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "muster.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: {{ toJson .root.Values.policies.validationActions }}
{{- end }}

{{/* Whether agents bring code to pods: where there is a store of it. */}}
{{- define "muster.code" -}}
{{- if and .Values.agent.create (or .Values.store.persistentVolumeClaim .Values.store.s3.endpoint) -}}
yes
{{- end -}}
{{- end }}

{{/* Whether agents bring data to pods: where it is kept, beside code or by itself. */}}
{{- define "muster.data" -}}
{{- if and .Values.agent.create .Values.data.enabled (or .Values.data.persistentVolumeClaim .Values.data.s3.endpoint .Values.store.persistentVolumeClaim .Values.store.s3.endpoint) -}}
yes
{{- end -}}
{{- end }}

{{/* Whether agents bring anything to pods, which takes a right to mount for others. */}}
{{- define "muster.brings" -}}
{{- include "muster.code" . }}{{ include "muster.data" . -}}
{{- end }}

{{/* Every kind whose objects make Muster create pods, as rules of a policy. */}}
{{- define "muster.jobs" -}}
- apiGroups: [muster.dev]
  apiVersions: ["*"]
  operations: {{ . }}
  resources: [trainingjobs, pipelines, pipelineruns]
- apiGroups: [kubeflow.org]
  apiVersions: ["*"]
  operations: {{ . }}
  resources: [tfjobs, pytorchjobs]
{{- end }}

{{/* The templates of pods in an object of these kinds, in CEL: a list of lists. */}}
{{- define "muster.templates" -}}
request.resource.resource == 'trainingjobs' ? [{{ . }}.spec.roles.filter(r, {{ include "muster.has" "r.template" }}).map(r, r.template)]
: request.resource.resource == 'tfjobs' ? [{{ . }}.spec.tfReplicaSpecs.map(k, {{ . }}.spec.tfReplicaSpecs[k]).filter(r, {{ include "muster.has" "r.template" }}).map(r, r.template)]
: request.resource.resource == 'pytorchjobs' ? [{{ . }}.spec.pytorchReplicaSpecs.map(k, {{ . }}.spec.pytorchReplicaSpecs[k]).filter(r, {{ include "muster.has" "r.template" }}).map(r, r.template)]
: {{ . }}.spec.stages.filter(s, {{ include "muster.has" "s.training" }} && {{ include "muster.has" "s.training.roles" }}).map(s, s.training.roles.filter(r, {{ include "muster.has" "r.template" }}).map(r, r.template))
{{- end }}

{{/* Those fields of a spec that change pods or their programs, in CEL: a policy does not judge a
change of any other field, such as suspend. */}}
{{- define "muster.parts" -}}
request.resource.resource == 'trainingjobs' ? [{{ . }}.spec.roles, has({{ . }}.spec.env) ? {{ . }}.spec.env : dyn([]), has({{ . }}.spec.volumes) ? {{ . }}.spec.volumes : dyn([]), has({{ . }}.spec.checkpoints) ? {{ . }}.spec.checkpoints : dyn([]), has({{ . }}.spec.code) ? {{ . }}.spec.code : dyn([]), has({{ . }}.spec.environment) ? {{ . }}.spec.environment : dyn([]), has({{ . }}.spec.data) ? {{ . }}.spec.data : dyn([])]
: request.resource.resource == 'tfjobs' ? [{{ . }}.spec.tfReplicaSpecs]
: request.resource.resource == 'pytorchjobs' ? [{{ . }}.spec.pytorchReplicaSpecs]
: [{{ . }}.spec.stages, has({{ . }}.spec.env) ? {{ . }}.spec.env : dyn([]), has({{ . }}.spec.code) ? {{ . }}.spec.code : dyn([]), has({{ . }}.spec.environment) ? {{ . }}.spec.environment : dyn([])]
{{- end }}

{{/* The queue that an object of these kinds names, in CEL. A TFJob and a PyTorchJob name it by a
label or in their policy. */}}
{{- define "muster.queue" -}}
request.resource.group == 'muster.dev' ? (has({{ . }}.spec.queue) && {{ . }}.spec.queue != '' ? {{ . }}.spec.queue : 'default')
: has({{ . }}.metadata.labels) && 'muster.dev/queue' in {{ . }}.metadata.labels && {{ . }}.metadata.labels['muster.dev/queue'] != '' ? {{ . }}.metadata.labels['muster.dev/queue']
: has({{ . }}.metadata.labels) && 'kueue.x-k8s.io/queue-name' in {{ . }}.metadata.labels && {{ . }}.metadata.labels['kueue.x-k8s.io/queue-name'] != '' ? {{ . }}.metadata.labels['kueue.x-k8s.io/queue-name']
: has({{ . }}.spec.runPolicy) && has({{ . }}.spec.runPolicy.schedulingPolicy) && has({{ . }}.spec.runPolicy.schedulingPolicy.queue) && {{ . }}.spec.runPolicy.schedulingPolicy.queue != '' ? {{ . }}.spec.runPolicy.schedulingPolicy.queue
: 'default'
{{- end }}

{{/* The priority classes outside of the templates of such an object, in CEL: a list of lists. */}}
{{- define "muster.classes" -}}
[has({{ . }}.spec.priorityClassName) ? [{{ . }}.spec.priorityClassName] : [],
has({{ . }}.spec.runPolicy) && has({{ . }}.spec.runPolicy.schedulingPolicy) && has({{ . }}.spec.runPolicy.schedulingPolicy.priorityClass) ? [{{ . }}.spec.runPolicy.schedulingPolicy.priorityClass] : [],
request.resource.resource in ['pipelines', 'pipelineruns'] ? {{ . }}.spec.stages.filter(s, {{ include "muster.has" "s.training" }} && {{ include "muster.has" "s.training.priorityClassName" }}).map(s, s.training.priorityClassName) : []]
{{- end }}

{{/* The containers of a pod s, in CEL: a list of lists. */}}
{{- define "muster.containers" -}}
[{{ include "muster.has" "s.containers" }} ? s.containers : dyn([]), {{ include "muster.has" "s.initContainers" }} ? s.initContainers : dyn([]), {{ include "muster.has" "s.ephemeralContainers" }} ? s.ephemeralContainers : dyn([])]
{{- end }}

{{/* Requests that no pod of a tenant may make, as validations of variables.specs, a list of lists of
the specs of pods; variables.same leaves an object alone that asks for nothing new. */}}
{{- define "muster.baseline" -}}
- expression: "variables.same || variables.specs.all(l, l.all(s, !({{ include "muster.has" "s.hostNetwork" }} && s.hostNetwork) && !({{ include "muster.has" "s.hostPID" }} && s.hostPID) && !({{ include "muster.has" "s.hostIPC" }} && s.hostIPC)))"
  message: "hostNetwork, hostPID and hostIPC are not allowed here: leave them out, or have an administrator put the label muster.dev/pod-security=privileged on the namespace"
  reason: Forbidden
- expression: "variables.same || variables.specs.all(l, l.all(s, !{{ include "muster.has" "s.volumes" }} || s.volumes.all(v, {{ if not .Values.machine }}!{{ include "muster.has" "v.hostPath" }} && {{ end }}!{{ include "muster.has" "v.flexVolume" }} && !{{ include "muster.has" "v.gcePersistentDisk" }} && !{{ include "muster.has" "v.awsElasticBlockStore" }} && !{{ include "muster.has" "v.azureDisk" }} && !{{ include "muster.has" "v.azureFile" }} && !{{ include "muster.has" "v.vsphereVolume" }} && !{{ include "muster.has" "v.cinder" }} && !{{ include "muster.has" "v.photonPersistentDisk" }} && !{{ include "muster.has" "v.gitRepo" }} && !{{ include "muster.has" "v.nfs" }} && !{{ include "muster.has" "v.iscsi" }} && !{{ include "muster.has" "v.fc" }} && !{{ include "muster.has" "v.rbd" }} && !{{ include "muster.has" "v.cephfs" }} && !{{ include "muster.has" "v.glusterfs" }} && !{{ include "muster.has" "v.quobyte" }} && !{{ include "muster.has" "v.flocker" }} && !{{ include "muster.has" "v.portworxVolume" }} && !{{ include "muster.has" "v.scaleIO" }} && !{{ include "muster.has" "v.storageos" }})))"
  {{- if .Values.machine }}
  message: "volumes of disks of the cloud or shares of the network are not allowed here (nfs and the like): name a PersistentVolumeClaim, or mount a folder of this machine by hostPath"
  {{- else }}
  message: "volumes that a node mounts from its own folders, disks of the cloud or shares of the network are not allowed here (hostPath, nfs and the like): name a PersistentVolumeClaim, or have an administrator put the label muster.dev/pod-security=privileged on the namespace"
  {{- end }}
  reason: Forbidden
- expression: "variables.same || variables.specs.all(l, l.all(s, {{ include "muster.containers" . }}.all(cs, cs.all(c, !{{ include "muster.has" "c.ports" }} || c.ports.all(p, !{{ include "muster.has" "p.hostPort" }} || p.hostPort == 0)))))"
  message: "a hostPort is not allowed here: leave it out, members reach one another by name; or have an administrator put the label muster.dev/pod-security=privileged on the namespace"
  reason: Forbidden
# A kubelet connects to the host of a probe, past the network policies of the namespace.
- expression: >-
    variables.same || variables.specs.all(l, l.all(s, {{ include "muster.containers" . }}.all(cs, cs.all(c,
    (({{ include "muster.has" "c.livenessProbe" }} ? [c.livenessProbe] : []) + ({{ include "muster.has" "c.readinessProbe" }} ? [c.readinessProbe] : []) + ({{ include "muster.has" "c.startupProbe" }} ? [c.startupProbe] : []))
    .all(p, (!{{ include "muster.has" "p.httpGet" }} || !{{ include "muster.has" "p.httpGet.host" }} || p.httpGet.host == '') && (!{{ include "muster.has" "p.tcpSocket" }} || !{{ include "muster.has" "p.tcpSocket.host" }} || p.tcpSocket.host == ''))
    && (({{ include "muster.has" "c.lifecycle" }} && {{ include "muster.has" "c.lifecycle.postStart" }} ? [c.lifecycle.postStart] : []) + ({{ include "muster.has" "c.lifecycle" }} && {{ include "muster.has" "c.lifecycle.preStop" }} ? [c.lifecycle.preStop] : []))
    .all(p, (!{{ include "muster.has" "p.httpGet" }} || !{{ include "muster.has" "p.httpGet.host" }} || p.httpGet.host == '') && (!{{ include "muster.has" "p.tcpSocket" }} || !{{ include "muster.has" "p.tcpSocket.host" }} || p.tcpSocket.host == ''))))))
  message: "a host in a probe or in lifecycle is not allowed here: leave it out, and the node asks the pod itself; or have an administrator put the label muster.dev/pod-security=privileged on the namespace"
  reason: Forbidden
- expression: >-
    variables.same || variables.specs.all(l, l.all(s, {{ include "muster.containers" . }}.all(cs, cs.all(c, !{{ include "muster.has" "c.securityContext" }}
    || (!({{ include "muster.has" "c.securityContext.privileged" }} && c.securityContext.privileged)
    && (!{{ include "muster.has" "c.securityContext.procMount" }} || c.securityContext.procMount in ['', 'Default'])
    && (!{{ include "muster.has" "c.securityContext.capabilities" }} || !{{ include "muster.has" "c.securityContext.capabilities.add" }} || c.securityContext.capabilities.add.all(a, a in {{ include "muster.capabilities" . }})))))))
  message: "privileged containers, a procMount and capabilities beyond those that a container has anyway are not allowed here: leave them out, or have an administrator put the label muster.dev/pod-security=privileged on the namespace"
  reason: Forbidden
- expression: >-
    variables.same || variables.specs.all(l, l.all(s, ([{{ include "muster.has" "s.securityContext" }} ? [s.securityContext] : []] + {{ include "muster.containers" . }}.map(cs, cs.filter(c, {{ include "muster.has" "c.securityContext" }}).map(c, c.securityContext)))
    .all(list, list.all(x, (!{{ include "muster.has" "x.runAsUser" }} || x.runAsUser != 0)
    && (!{{ include "muster.has" "x.seccompProfile" }} || !{{ include "muster.has" "x.seccompProfile.type" }} || x.seccompProfile.type != 'Unconfined')
    && (!{{ include "muster.has" "x.appArmorProfile" }} || !{{ include "muster.has" "x.appArmorProfile.type" }} || x.appArmorProfile.type != 'Unconfined')
    && (!{{ include "muster.has" "x.windowsOptions" }} || !{{ include "muster.has" "x.windowsOptions.hostProcess" }} || !x.windowsOptions.hostProcess)
    && !{{ include "muster.has" "x.seLinuxOptions" }}))))
  message: "a security context with runAsUser 0, an Unconfined profile, seLinuxOptions or a host process is not allowed here: leave it out, or have an administrator put the label muster.dev/pod-security=privileged on the namespace"
  reason: Forbidden
- expression: "variables.same || variables.specs.all(l, l.all(s, !{{ include "muster.has" "s.securityContext" }} || !{{ include "muster.has" "s.securityContext.sysctls" }} || s.securityContext.sysctls.all(x, x.name in {{ include "muster.sysctls" . }})))"
  message: "only sysctls that are a pod's own are allowed here: leave the others out, or have an administrator put the label muster.dev/pod-security=privileged on the namespace"
  reason: Forbidden
{{- end }}

{{/* The capabilities that a container may add: those that runtimes give by default. From the Pod Security Standard baseline. */}}
{{- define "muster.capabilities" -}}
{{- if .Values.machine }}[]{{ else }}['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE', 'SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT']{{ end }}
{{- end }}

{{/* The sysctls of that standard. */}}
{{- define "muster.sysctls" -}}
['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.ip_unprivileged_port_start', 'net.ipv4.tcp_syncookies', 'net.ipv4.ping_group_range', 'net.ipv4.ip_local_reserved_ports', 'net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl', 'net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem']
{{- end }}

{{/* Namespaces whose pods may ask for more, as a selector. */}}
{{- define "muster.strict" -}}
{key: muster.dev/pod-security, operator: NotIn, values: [privileged]}
{{- end }}

{{/* Users, beside the manager, who are exempt from all policies. */}}
{{- define "muster.trusted" -}}
{{- .Values.policies.exemptUsers | toJson | replace "\"" "'" -}}
{{- end }}

{{/* Whether a key of labels and annotations is Muster's own, in CEL. */}}
{{- define "muster.reserved" -}}
({{ . }}.startsWith('muster.dev/') || {{ . }}.contains('.muster.dev/'))
{{- end }}

{{/* Whether a field of a template is there and is not null, in CEL: YAML has null for a key
without a value, and templates have no schema that removes it. */}}
{{- define "muster.has" -}}
(has({{ . }}) && {{ . }} != null)
{{- end }}

{{/* Whether other pods reach the console. */}}
{{- define "muster.open" -}}
{{- if and .Values.console.enabled (or .Values.console.proxies .Values.console.certificateSecret) -}}
yes
{{- end -}}
{{- end }}

{{/* The configuration of the console, for muster serve --console. */}}
{{- define "muster.console" -}}
port: {{ .Values.console.port }}
{{- if include "muster.open" . }}
address: {{ default "0.0.0.0" .Values.console.address | quote }}
url: {{ .Values.console.url | quote }}
{{- end }}
{{- with .Values.console.proxies }}
proxies: {{ toJson . }}
{{- end }}
{{- if .Values.console.certificateSecret }}
certificate: /etc/muster/console-certificate/tls.crt
key: /etc/muster/console-certificate/tls.key
{{- end }}
oidc:
  issuer: {{ .Values.console.oidc.issuer | quote }}
  clientID: {{ .Values.console.oidc.clientID | quote }}
  {{- if .Values.console.oidc.clientSecret }}
  clientSecretFile: /etc/muster/console-client/clientSecret
  {{- end }}
  scopes: {{ toJson .Values.console.oidc.scopes }}
  usernameClaim: {{ .Values.console.oidc.usernameClaim | quote }}
  usernamePrefix: {{ .Values.console.oidc.usernamePrefix | quote }}
  groupsClaim: {{ .Values.console.oidc.groupsClaim | quote }}
  groupsPrefix: {{ .Values.console.oidc.groupsPrefix | quote }}
  {{- if .Values.console.oidc.impersonation.enabled }}
  impersonate: true
  impersonateGroups: {{ toJson .Values.console.oidc.impersonation.groups }}
  {{- end }}
{{- end }}
