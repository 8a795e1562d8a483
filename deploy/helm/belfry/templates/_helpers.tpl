{{/* The name that all objects begin with. It is a label of DNS, since pods and nodes are called after it. */}}
{{- define "belfry.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = .Release.Name -}}
{{- if not (contains "belfry" $name) -}}
{{- $name = printf "%s-belfry" $name -}}
{{- end -}}
{{- end -}}
{{- $name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The labels that select the pods. They never change. */}}
{{- define "belfry.selector" -}}
app.kubernetes.io/name: belfry
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "belfry.labels" -}}
{{ include "belfry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "belfry.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "belfry.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "belfry.image" -}}
{{- $tag := .Values.image.tag | default (printf "v%s" .Chart.AppVersion) -}}
{{- if .Values.image.digest -}}
{{- printf "%s:%s@%s" .Values.image.repository $tag .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}

{{/* The domain below which each pod has a name, also while it is not ready. */}}
{{- define "belfry.peerDomain" -}}
{{- printf "%s-peers.%s.svc.%s" (include "belfry.fullname" .) .Release.Namespace .Values.cluster.domain -}}
{{- end -}}

{{/* The names in a pod's certificate of cert-manager: the node's, the pod's, and those by which callers reach it. */}}
{{- define "belfry.certificateNames" -}}
{{- $service := printf "%s.%s.svc" (include "belfry.fullname" .) .Release.Namespace -}}
{{- printf "${POD_NAME}.node.belfry,${POD_NAME}.%s,%s,localhost" (include "belfry.peerDomain" .) $service -}}
{{- end -}}

{{/*
The settings that all pods share, as YAML. The list of addresses does not depend on replicas: scaling must not change
the settings, since a change restarts the nodes.
*/}}
{{- define "belfry.settings" -}}
{{- $name := include "belfry.fullname" . -}}
{{- $service := printf "%s.%s" $name .Release.Namespace -}}
{{- $expect := int .Values.cluster.bootstrapExpect -}}
{{- $settings := dict
  "data" "/var/lib/belfry/data"
  "http" ":8400"
  "peer" ":8500"
  "peer-ca" (printf "/etc/belfry/%s/ca.pem" (ternary "own" "nodes" .Values.certManager.enabled))
  "gossip-key-file" "/etc/belfry/nodes/gossip.key"
  "log-format" "json"
-}}
{{- $hosts := list $name $service (printf "%s.svc" $service) (printf "%s.svc.%s" $service .Values.cluster.domain) -}}
{{- $_ := set $settings "allow-host" (concat $hosts .Values.http.allowHosts) -}}
{{- if and .Values.ingress.enabled (not (has .Values.ingress.host .Values.http.allowHosts)) -}}
{{- $_ := set $settings "allow-host" (append (get $settings "allow-host") .Values.ingress.host) -}}
{{- end -}}
{{- if ne $expect 1 -}}
{{- $join := list -}}
{{- range $i := until (int (max $expect 3)) -}}
{{- $join = append $join (printf "%s-%d.%s:8500" $name $i (include "belfry.peerDomain" $)) -}}
{{- end -}}
{{- $_ := set $settings "join" $join -}}
{{- end -}}
{{- if .Values.http.behindProxy -}}
{{- $_ := set $settings "behind-proxy" true -}}
{{- end -}}
{{- if .Values.secrets.rootKey -}}
{{- $_ := set $settings "root-key-file" "/etc/belfry/root/root.key" -}}
{{- end -}}
{{- if .Values.secrets.joinToken -}}
{{- $_ := set $settings "join-token-file" "/etc/belfry/join/join.token" -}}
{{- end -}}
{{- if .Values.secrets.clusterKey -}}
{{- $_ := set $settings "cluster-key-file" "/etc/belfry/cluster/cluster.key" -}}
{{- end -}}
{{- range $key, $value := .Values.config -}}
{{- $_ := set $settings $key $value -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/*
The settings that all pods share and that are no part of the checksum of the settings: a change restarts no node. The
number of nodes that form a new cluster is told only by the revision that installs the release. A later one finds a
cluster, and nodes whose volumes are lost then join it or wait.
*/}}
{{- define "belfry.bootstrap" -}}
{{- $expect := int .Values.cluster.bootstrapExpect -}}
{{- if include "belfry.forming" . -}}
bootstrap-expect: {{ $expect }}
{{- else if eq $expect 1 -}}
{{- /* A node without others to join would form a cluster alone. */ -}}
join: ["{{ include "belfry.fullname" . }}-0.{{ include "belfry.peerDomain" . }}:8500"]
{{- end -}}
{{- end -}}

{{- define "belfry.forming" -}}
{{- if and .Values.cluster.bootstrapExpect (or .Release.IsInstall .Values.cluster.bootstrapOnUpgrade) -}}
yes
{{- end -}}
{{- end -}}

{{/* The scheme of the API, as the probes and the names of ports want it. */}}
{{- define "belfry.scheme" -}}
{{- ternary "http" "https" .Values.http.behindProxy -}}
{{- end -}}

{{/* Values that contradict each other fail here, and not at the start of the nodes. */}}
{{- define "belfry.check" -}}
{{- $expect := int .Values.cluster.bootstrapExpect -}}
{{- if gt $expect (int .Values.replicas) -}}
{{- fail (printf "cluster.bootstrapExpect is %d, but replicas is %d" $expect (int .Values.replicas)) -}}
{{- end -}}
{{- if and (include "belfry.forming" .) (eq $expect 1) (gt (int .Values.replicas) 1) -}}
{{- fail "cluster.bootstrapExpect is 1: install one node first, or each further one forms a cluster of its own" -}}
{{- end -}}
{{- if le (int .Values.terminationGracePeriodSeconds) (add 10 (int .Values.preStopSeconds)) -}}
{{- fail "terminationGracePeriodSeconds must exceed preStopSeconds by more than 10: a node needs that to stop" -}}
{{- end -}}
{{- if and .Values.certManager.enabled (not .Values.certManager.issuer.name) -}}
{{- fail "certManager.enabled needs certManager.issuer.name" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host" -}}
{{- end -}}
{{- $others := or (hasKey .Values.config "oidc-issuer") (hasKey .Values.config "http-client-ca") -}}
{{- if not (or .Values.secrets.rootKey $others) -}}
{{- fail "callers need credentials: set secrets.rootKey, or oidc-issuer or http-client-ca in config" -}}
{{- end -}}
{{- end -}}
