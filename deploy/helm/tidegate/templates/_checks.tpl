{{- /* What does not fit together, each with what to do. The schema checks names and types. */ -}}
{{- define "tidegate.checks" -}}
{{- $wrong := list -}}
{{- with .Values -}}
{{- if and (eq .store.kind "redis") (not .store.address) -}}
{{- $wrong = append $wrong "store.address: is needed with store.kind redis, such as redis://cache:6379" -}}
{{- end -}}
{{- if and (eq .store.kind "memory") .store.address -}}
{{- $wrong = append $wrong "store.address: has no effect with store.kind memory; set store.kind to redis" -}}
{{- end -}}
{{- if and (eq .catalog.kind "postgres") (not .catalog.address) -}}
{{- $wrong = append $wrong "catalog.address: is needed with catalog.kind postgres, such as postgres://tidegate@db/tidegate" -}}
{{- end -}}
{{- if and (eq .catalog.kind "sqlite") .catalog.address -}}
{{- $wrong = append $wrong "catalog.address: has no effect with catalog.kind sqlite; set catalog.kind to postgres" -}}
{{- end -}}
{{- if and (include "tidegate.many" $) (eq .store.kind "memory") -}}
{{- $wrong = append $wrong "replicas, autoscaling: pods with store.kind memory count separately, and each would allow the whole limit; set store.kind to redis" -}}
{{- end -}}
{{- if and (include "tidegate.many" $) .data.persistent -}}
{{- $wrong = append $wrong "data.persistent: the folder belongs to one process; with several pods set it to false" -}}
{{- end -}}
{{- if and .rules.catalog (eq .catalog.kind "sqlite") (not .data.persistent) -}}
{{- $wrong = append $wrong "rules.catalog: the rules would end with the pod; set catalog.kind to postgres, or data.persistent to true" -}}
{{- end -}}
{{- if and .rules.catalog .rules.existingConfigMap -}}
{{- $wrong = append $wrong "rules.existingConfigMap: has no effect with rules.catalog true; remove one of them" -}}
{{- end -}}
{{- if and .serviceMonitor.enabled (not .admin.tokenSecret.name) -}}
{{- $wrong = append $wrong "serviceMonitor.enabled: without admin.tokenSecret.name the admin listener stays on the pod's loopback, where Prometheus does not reach it" -}}
{{- end -}}
{{- if and .tls.admin.clientCa (not .tls.admin.secretName) -}}
{{- $wrong = append $wrong "tls.admin.clientCa: needs tls.admin.secretName" -}}
{{- end -}}
{{- if and .tls.grpc.clientCa (not .tls.grpc.secretName) -}}
{{- $wrong = append $wrong "tls.grpc.clientCa: needs tls.grpc.secretName" -}}
{{- end -}}
{{- if and .tls.http.clientCa (not .tls.http.secretName) -}}
{{- $wrong = append $wrong "tls.http.clientCa: needs tls.http.secretName" -}}
{{- end -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- $wrong = append $wrong (printf "autoscaling.minReplicas: %d is more than autoscaling.maxReplicas, which is %d" (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- end -}}
{{- if .memory.maxBytes -}}
{{- $most := div (mul (include "tidegate.bytes" .resources.limits.memory | int64) 9) 10 -}}
{{- if gt (include "tidegate.bytes" .memory.maxBytes | int64) $most -}}
{{- $wrong = append $wrong (printf "memory.maxBytes: %s is more than nine tenths of resources.limits.memory, which is %s; the pod would be killed before the service rejects anything" .memory.maxBytes .resources.limits.memory) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := merge dict .settings .secretSettings -}}
{{- if regexMatch "^(rules|data|store|catalog|catalog_required|memory\\.max_bytes|drain\\..*|(grpc|http|admin)\\.(listen|tls\\..*)|admin\\.(token_file|allowed_hosts))$" $name -}}
{{- $wrong = append $wrong (printf "settings.%s: the chart sets it; use the value of its own" $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .secretSettings -}}
{{- if hasKey $.Values.settings $name -}}
{{- $wrong = append $wrong (printf "secretSettings.%s: is in settings too; remove one of them" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n  %s" (join "\n  " $wrong)) -}}
{{- end -}}
{{- end }}
