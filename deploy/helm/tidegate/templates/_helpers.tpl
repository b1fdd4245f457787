{{- define "tidegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "tidegate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "tidegate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tidegate.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ include "tidegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidegate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "tidegate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tidegate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- /* Whether there may be more than one pod at a time, other than while one replaces another. */ -}}
{{- define "tidegate.many" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}true{{- end -}}
{{- end }}

{{- /*
The address of a database with the files of its password and its authority. Takes the values of the database (of), the
name under which its Secrets are mounted (mount), and what the address calls the authority (ca).
*/ -}}
{{- define "tidegate.address" -}}
{{- $parts := list -}}
{{- if .of.passwordSecret.name }}{{ $parts = append $parts (printf "password_file=/run/secrets/%s/password" .mount) }}{{ end -}}
{{- if .of.caSecret }}{{ $parts = append $parts (printf "%s=/run/secrets/%s-ca/ca.crt" .ca .mount) }}{{ end -}}
{{- .of.address -}}
{{- if $parts -}}
{{- contains "?" .of.address | ternary "&" "?" -}}{{- join "&" $parts -}}
{{- end -}}
{{- end }}

{{- /* Bytes of a size such as 512Mi, 1Gi, 900MiB or 1000000. */ -}}
{{- define "tidegate.bytes" -}}
{{- $size := toString . -}}
{{- $number := regexFind "^[0-9]+" $size | int64 -}}
{{- $unit := regexReplaceAll "^[0-9]+" $size "" | trimSuffix "B" -}}
{{- $units := dict "" 1 "K" 1000 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if not (hasKey $units $unit) -}}
{{- fail (printf "%s: write a size as a whole number with Ki, Mi, Gi, K, M or G" $size) -}}
{{- end -}}
{{- mul $number (get $units $unit | int64) -}}
{{- end }}

{{- define "tidegate.tlsVariables" -}}
{{- range $listener := list "grpc" "http" "admin" }}
{{- with index $.Values.tls $listener }}
{{- if .secretName }}
- { name: TIDEGATE_{{ upper $listener }}__TLS__CERT, value: /run/secrets/tls-{{ $listener }}/tls.crt }
- { name: TIDEGATE_{{ upper $listener }}__TLS__KEY, value: /run/secrets/tls-{{ $listener }}/tls.key }
{{- if .clientCa }}
- { name: TIDEGATE_{{ upper $listener }}__TLS__CLIENT_CA, value: /run/secrets/tls-{{ $listener }}/ca.crt }
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Secrets that are mounted at /run/secrets/NAME, as a list of name and secret. Mode 288 is 0440: the group reads. */ -}}
{{- define "tidegate.secrets" -}}
{{- $list := list -}}
{{- with .Values.admin.tokenSecret }}{{ if .name }}
{{- $list = append $list (dict "name" "admin" "secret" (dict "secretName" .name "defaultMode" 288 "items" (list (dict "key" .key "path" "token")))) -}}
{{- end }}{{ end -}}
{{- if eq .Values.store.kind "redis" -}}
{{- with .Values.store.passwordSecret }}{{ if .name }}
{{- $list = append $list (dict "name" "store" "secret" (dict "secretName" .name "defaultMode" 288 "items" (list (dict "key" .key "path" "password")))) -}}
{{- end }}{{ end -}}
{{- with .Values.store.caSecret }}
{{- $list = append $list (dict "name" "store-ca" "secret" (dict "secretName" . "items" (list (dict "key" "ca.crt" "path" "ca.crt")))) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.catalog.kind "postgres" -}}
{{- with .Values.catalog.passwordSecret }}{{ if .name }}
{{- $list = append $list (dict "name" "catalog" "secret" (dict "secretName" .name "defaultMode" 288 "items" (list (dict "key" .key "path" "password")))) -}}
{{- end }}{{ end -}}
{{- with .Values.catalog.caSecret }}
{{- $list = append $list (dict "name" "catalog-ca" "secret" (dict "secretName" . "items" (list (dict "key" "ca.crt" "path" "ca.crt")))) -}}
{{- end -}}
{{- end -}}
{{- range $listener := list "grpc" "http" "admin" -}}
{{- with (index $.Values.tls $listener).secretName }}
{{- $list = append $list (dict "name" (printf "tls-%s" $listener) "secret" (dict "secretName" . "defaultMode" 288)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $list -}}
{{- end }}
