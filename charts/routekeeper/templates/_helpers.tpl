{{- define "routekeeper.name" -}}
{{- $base := .Values.nameOverride | default "routekeeper" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $base .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" (.Release.Name | trunc 25 | trimSuffix "-") ($base | trunc 24) | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "routekeeper.selector" -}}
app.kubernetes.io/name: routekeeper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "routekeeper.labels" -}}
{{ include "routekeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The labels, and more of one object, which win over commonLabels. */ -}}
{{- define "routekeeper.labelsAnd" -}}
{{- merge (dict) (index . 1 | default dict) (include "routekeeper.labels" (index . 0) | fromYaml) | toYaml -}}
{{- end -}}

{{- define "routekeeper.image" -}}
{{- $repository := required "image.repository: expected the repository to which the image was pushed" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "routekeeper.account" -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}

{{- define "routekeeper.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "routekeeper.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
