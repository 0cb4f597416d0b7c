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

{{/* Who the manager is to the API server. */}}
{{- define "muster.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:muster-manager
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
