package chart

import (
	"bytes"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const (
	folder   = "../../helm/belfry"
	manifest = "../../kubernetes/belfry.yaml"
)

var release = Release{Name: "belfry", Namespace: "timers"}

// render returns the objects of the chart with values, which are YAML.
func render(t *testing.T, values string) []runtime.Object {
	t.Helper()
	return renderAs(t, release, values)
}

func renderAs(t *testing.T, release Release, values string) []runtime.Object {
	t.Helper()
	r, err := Render(folder, release, parse(t, values))
	if err != nil {
		t.Fatal(err)
	}
	if r.Notes == "" {
		t.Error("no notes")
	}
	objects, err := Decode(r.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func parse(t *testing.T, values string) map[string]any {
	t.Helper()
	var parsed map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// only returns the one object of a type.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T", len(found), *new(T))
	}
	return found[0]
}

// settings returns the shared settings of the nodes.
func settings(t *testing.T, objects []runtime.Object) map[string]any {
	t.Helper()
	return parse(t, only[*corev1.ConfigMap](t, objects).Data["belfry.yaml"])
}

// TestPlainManifests fails when somebody changed the chart, or the manifests, alone.
func TestPlainManifests(t *testing.T) {
	want, err := Plain(folder)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the rendered chart: run make manifests", manifest)
	}
	objects, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 7 {
		t.Errorf("%d objects", len(objects))
	}
}

// TestOneNodeAtATime checks that nothing planned takes two nodes away at once.
func TestOneNodeAtATime(t *testing.T) {
	objects := render(t, "")
	budget := only[*policyv1.PodDisruptionBudget](t, objects).Spec
	if budget.MaxUnavailable == nil || *budget.MaxUnavailable != intstr.FromInt32(1) || budget.MinAvailable != nil {
		t.Errorf("budget: %+v", budget)
	}
	set := only[*appsv1.StatefulSet](t, objects).Spec
	if !equalLabels(budget.Selector, set.Selector) {
		t.Errorf("the budget selects %v, and the set %v", budget.Selector, set.Selector)
	}
	if set.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType ||
		set.UpdateStrategy.RollingUpdate.MaxUnavailable != nil || *set.UpdateStrategy.RollingUpdate.Partition != 0 {
		t.Errorf("updates: %+v", set.UpdateStrategy)
	}
	if set.MinReadySeconds < 10 {
		t.Errorf("the next node follows after %d s", set.MinReadySeconds)
	}
	// The first nodes are ready only together, so none of them may wait for another one to be ready.
	if set.PodManagementPolicy != appsv1.ParallelPodManagement || *set.Replicas != 3 {
		t.Errorf("%s, %d replicas", set.PodManagementPolicy, *set.Replicas)
	}
}

func equalLabels(a, b *metav1.LabelSelector) bool {
	return metav1.FormatLabelSelector(a) == metav1.FormatLabelSelector(b)
}

// TestStop checks that a node has time to give its leaderships away.
func TestStop(t *testing.T) {
	pod := only[*appsv1.StatefulSet](t, render(t, "")).Spec.Template.Spec
	hook := pod.Containers[0].Lifecycle.PreStop
	if hook.Sleep == nil || hook.Sleep.Seconds < 5 {
		t.Errorf("preStop: %+v", hook)
	}
	const calls, leaderships, files = 2, 5, 10 // seconds
	if grace := *pod.TerminationGracePeriodSeconds; grace < hook.Sleep.Seconds+calls+leaderships+files {
		t.Errorf("a node has %d s to stop", grace)
	}
	without := only[*appsv1.StatefulSet](t, render(t, "preStopSeconds: 0")).Spec.Template.Spec
	if without.Containers[0].Lifecycle != nil {
		t.Errorf("%+v", without.Containers[0].Lifecycle)
	}
}

func TestProbes(t *testing.T) {
	for values, scheme := range map[string]corev1.URIScheme{
		"":                          corev1.URISchemeHTTPS,
		"http: {behindProxy: true}": corev1.URISchemeHTTP,
	} {
		c := only[*appsv1.StatefulSet](t, render(t, values)).Spec.Template.Spec.Containers[0]
		for path, probes := range map[string][]*corev1.Probe{
			"/readyz":  {c.ReadinessProbe},
			"/healthz": {c.StartupProbe, c.LivenessProbe},
		} {
			for _, probe := range probes {
				if probe == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Scheme != scheme || probe.HTTPGet.Port.StrVal != "api" {
					t.Errorf("%s: %+v", path, probe)
				}
			}
		}
		// A node with many tasks, or without room on its disk, must not be killed while it starts.
		if minutes := c.StartupProbe.PeriodSeconds * c.StartupProbe.FailureThreshold / 60; minutes < 30 {
			t.Errorf("a start may take %d minutes", minutes)
		}
	}
}

func TestPodIsConfined(t *testing.T) {
	pod := only[*appsv1.StatefulSet](t, render(t, "")).Spec.Template.Spec
	s := pod.SecurityContext
	if !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.FSGroup != 65532 ||
		s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod: %+v", s)
	}
	if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks || pod.HostNetwork || pod.HostPID {
		t.Error("the pod gets more than it needs")
	}
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatal("one container was expected")
	}
	c := pod.Containers[0].SecurityContext
	if !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || c.Privileged != nil ||
		!slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) != 0 {
		t.Errorf("container: %+v", c)
	}
	resources := pod.Containers[0].Resources
	if memory := resources.Limits.Memory(); memory.IsZero() || memory.Cmp(*resources.Requests.Memory()) != 0 {
		t.Errorf("memory: %+v", resources)
	}
	writable := []string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if !mount.ReadOnly {
			writable = append(writable, mount.MountPath)
		}
	}
	if !slices.Equal(writable, []string{"/var/lib/belfry"}) {
		t.Errorf("writable: %v", writable)
	}
	for _, claim := range only[*appsv1.StatefulSet](t, render(t, "")).Spec.VolumeClaimTemplates {
		if claim.Name != "data" || claim.Spec.Resources.Requests.Storage().IsZero() {
			t.Errorf("claim: %+v", claim)
		}
	}
}

// TestPodsSeeTheirOwnKeys checks that a pod sees no other pod's certificate and key: of the secret with those of all
// nodes it mounts the two shared files and, by its name, its own two. With cert-manager, no secret has its key.
func TestPodsSeeTheirOwnKeys(t *testing.T) {
	pod := only[*appsv1.StatefulSet](t, render(t, "")).Spec.Template.Spec
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	var got []string
	for _, mount := range pod.Containers[0].VolumeMounts {
		secret := volumes[mount.Name].Secret
		switch {
		case secret == nil || secret.SecretName != "belfry-nodes":
		case mount.SubPathExpr != "":
			got = append(got, mount.MountPath+" from "+mount.SubPathExpr)
		case len(secret.Items) == 0:
			t.Errorf("%s has all keys of %s", mount.MountPath, secret.SecretName)
		default:
			for _, item := range secret.Items {
				got = append(got, mount.MountPath+"/"+item.Path+" from "+item.Key)
			}
		}
	}
	want := []string{
		"/etc/belfry/nodes/gossip.key from gossip.key", "/etc/belfry/nodes/ca.pem from ca.pem",
		"/etc/belfry/own/node.pem from $(BELFRY_SERVE_NAME).pem", "/etc/belfry/own/node.key from $(BELFRY_SERVE_NAME).key",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	objects := render(t, "certManager: {enabled: true, issuer: {name: nodes}}")
	for _, v := range only[*appsv1.StatefulSet](t, objects).Spec.Template.Spec.Volumes {
		switch {
		case v.Name == "own" && (v.CSI == nil || v.CSI.Driver != "csi.cert-manager.io" || !*v.CSI.ReadOnly):
			t.Errorf("%+v", v)
		case v.Name == "own":
			const names = "${POD_NAME}.node.belfry,${POD_NAME}.belfry-peers.timers.svc.cluster.local,belfry.timers.svc,localhost"
			if got := v.CSI.VolumeAttributes["csi.cert-manager.io/dns-names"]; got != names {
				t.Errorf("names: %s", got)
			}
		case v.Name == "nodes" && (len(v.Secret.Items) != 1 || v.Secret.Items[0].Key != "gossip.key"):
			t.Errorf("%+v", v.Secret)
		}
	}
	if ca := settings(t, objects)["peer-ca"]; ca != "/etc/belfry/own/ca.pem" {
		t.Errorf("peer-ca: %v", ca)
	}
}

// TestClusterFormsOnce checks that only the installation of a release lets nodes form a cluster, and that the next
// revision restarts none of them for it.
func TestClusterFormsOnce(t *testing.T) {
	upgrade := release
	upgrade.Upgrade = true
	const annotation = "checksum/config"
	const first = "belfry-0.belfry-peers.timers.svc.cluster.local:8500"
	for values, joined := range map[string]int{"": 3, "{replicas: 1, cluster: {bootstrapExpect: 1}}": 1} {
		installed, upgraded := render(t, values), renderAs(t, upgrade, values)
		if settings(t, installed)["bootstrap-expect"] == nil {
			t.Errorf("%s: the installation forms no cluster", values)
		}
		got := settings(t, upgraded)
		// A node without an address to join forms a cluster alone.
		if join, _ := got["join"].([]any); got["bootstrap-expect"] != nil || len(join) != joined || join[0] != first {
			t.Errorf("%s: an upgrade: bootstrap-expect %v, join %v", values, got["bootstrap-expect"], got["join"])
		}
		was := only[*appsv1.StatefulSet](t, installed).Spec.Template.Annotations[annotation]
		if now := only[*appsv1.StatefulSet](t, upgraded).Spec.Template.Annotations[annotation]; now != was {
			t.Errorf("%s: the upgrade restarts the nodes", values)
		}
	}
	again := settings(t, renderAs(t, upgrade, "cluster: {bootstrapOnUpgrade: true}"))
	if again["bootstrap-expect"] != float64(3) {
		t.Errorf("an upgrade before the cluster has formed: %v", again["bootstrap-expect"])
	}
}

// TestIngress checks that callers reach the service under the host, and that the nodes allow the host.
func TestIngress(t *testing.T) {
	for values, port := range map[string]string{"": "https", ", http: {behindProxy: true}": "http"} {
		objects := render(t, "{ingress: {enabled: true, host: timers.example, tlsSecret: public}"+values+"}")
		spec := only[*networkingv1.Ingress](t, objects).Spec
		backend := spec.Rules[0].HTTP.Paths[0].Backend.Service
		if spec.Rules[0].Host != "timers.example" || backend.Name != "belfry" || backend.Port.Name != port ||
			spec.TLS[0].SecretName != "public" {
			t.Errorf("%+v", spec)
		}
		if hosts := settings(t, objects)["allow-host"].([]any); !slices.Contains(hosts, any("timers.example")) {
			t.Errorf("allow-host: %v", hosts)
		}
	}
}

// TestEgress checks that the policy leaves the nodes the names, each other, and the given rules.
func TestEgress(t *testing.T) {
	const rules = "networkPolicy: {egress: {enabled: true, rules: [{ports: [{port: 443}]}]}}"
	spec := only[*networkingv1.NetworkPolicy](t, render(t, rules)).Spec
	if len(spec.PolicyTypes) != 2 || spec.PolicyTypes[1] != networkingv1.PolicyTypeEgress || len(spec.Egress) != 3 {
		t.Fatalf("%+v", spec)
	}
	for i, want := range []int32{53, 8500, 443} {
		if got := spec.Egress[i].Ports[0].Port.IntVal; got != want {
			t.Errorf("rule %d is for port %d, want %d", i, got, want)
		}
	}
	if to := spec.Egress[1].To; len(to) != 1 || !equalLabels(to[0].PodSelector, &spec.PodSelector) {
		t.Errorf("to the peers: %+v", to)
	}
	if without := only[*networkingv1.NetworkPolicy](t, render(t, "")).Spec; len(without.PolicyTypes) != 1 {
		t.Errorf("%+v", without.PolicyTypes)
	}
}

// TestPrometheusRule checks that the rules are those of the repository, unchanged.
func TestPrometheusRule(t *testing.T) {
	r, err := Render(folder, release, parse(t, "prometheusRule: {enabled: true, labels: {team: a}}"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../observe/prometheus/rules/belfry.yml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(r.Manifests), "\n"+separator) {
		if !strings.Contains(document, "kind: PrometheusRule") {
			continue
		}
		if got, want := parse(t, document)["spec"], parse(t, string(rules)); !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%v, want %v", got, want)
		}
		return
	}
	t.Error("no PrometheusRule")
}

// TestKeysAreSecrets checks that keys come from secrets, in files that no other user may read.
func TestKeysAreSecrets(t *testing.T) {
	objects := render(t, "{secrets: {clusterKey: at-rest}, http: {tlsSecret: public}}")
	pod := only[*appsv1.StatefulSet](t, objects).Spec.Template.Spec
	got := map[string]string{}
	for _, v := range pod.Volumes {
		if v.Secret == nil {
			continue
		}
		got[v.Name] = v.Secret.SecretName
		if *v.Secret.DefaultMode&0o027 != 0 {
			t.Errorf("%s has mode %04o", v.Name, *v.Secret.DefaultMode)
		}
		if optional := v.Secret.Optional != nil && *v.Secret.Optional; optional != (v.Name == "join") {
			t.Errorf("%s is optional: %v", v.Name, optional)
		}
	}
	want := map[string]string{"nodes": "belfry-nodes", "own": "belfry-nodes", "root": "belfry-root-key",
		"join": "belfry-join-token", "cluster": "at-rest", "http": "public"}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, secret := range want {
		if got[name] != secret {
			t.Errorf("%s: %q, want %q", name, got[name], secret)
		}
	}
	// Every file in the settings is in a mounted folder.
	mounts := map[string]bool{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounts[mount.MountPath] = true
	}
	files := 0
	for key, value := range settings(t, objects) {
		file, ok := value.(string)
		if !ok || !strings.HasPrefix(file, "/etc/") {
			continue
		}
		files++
		if !mounts[file[:strings.LastIndex(file, "/")]] {
			t.Errorf("%s: %s is not mounted", key, file)
		}
	}
	if files != 5 {
		t.Errorf("%d files in the settings", files)
	}
}

func TestNodesAreSpread(t *testing.T) {
	set := only[*appsv1.StatefulSet](t, render(t, "")).Spec
	got := map[string]corev1.UnsatisfiableConstraintAction{}
	for _, c := range set.Template.Spec.TopologySpreadConstraints {
		got[c.TopologyKey] = c.WhenUnsatisfiable
		if c.MaxSkew != 1 || !equalLabels(c.LabelSelector, set.Selector) {
			t.Errorf("%+v", c)
		}
	}
	if len(got) != 2 || got[corev1.LabelHostname] != corev1.DoNotSchedule ||
		got[corev1.LabelTopologyZone] != corev1.ScheduleAnyway {
		t.Errorf("%v", got)
	}
	none := only[*appsv1.StatefulSet](t, render(t, "topologySpread: {host: null, zone: null}")).Spec.Template.Spec
	if len(none.TopologySpreadConstraints) != 0 {
		t.Errorf("%v", none.TopologySpreadConstraints)
	}
}

// TestNodesFindEachOther checks the names by which nodes that are not ready yet find each other.
func TestNodesFindEachOther(t *testing.T) {
	objects := render(t, "")
	set := only[*appsv1.StatefulSet](t, objects)
	services := map[string]*corev1.Service{}
	for _, o := range objects {
		if s, ok := o.(*corev1.Service); ok {
			services[s.Name] = s
		}
	}
	peers := services[set.Spec.ServiceName]
	if peers == nil || peers.Spec.ClusterIP != corev1.ClusterIPNone || !peers.Spec.PublishNotReadyAddresses {
		t.Fatalf("headless service: %+v", peers)
	}
	callers := services["belfry"]
	if callers == nil || callers.Spec.PublishNotReadyAddresses || callers.Spec.Ports[0].TargetPort.StrVal != "api" {
		t.Errorf("service: %+v", callers)
	}
	got := settings(t, objects)
	const domain = "belfry-peers.timers.svc.cluster.local:8500"
	if want := []any{"belfry-0." + domain, "belfry-1." + domain, "belfry-2." + domain}; !slices.Equal(got["join"].([]any), want) {
		t.Errorf("join: %v", got["join"])
	}
	if got["bootstrap-expect"] != float64(3) {
		t.Errorf("bootstrap-expect: %v", got["bootstrap-expect"])
	}
	// More nodes must not change the settings, since each change restarts all nodes.
	const annotation = "checksum/config"
	five := only[*appsv1.StatefulSet](t, render(t, "replicas: 5"))
	if set.Spec.Template.Annotations[annotation] != five.Spec.Template.Annotations[annotation] {
		t.Error("five replicas have other settings than three")
	}
	other := only[*appsv1.StatefulSet](t, render(t, "config: {move-rate: 1MiB}"))
	if set.Spec.Template.Annotations[annotation] == other.Spec.Template.Annotations[annotation] {
		t.Error("another setting does not restart the nodes")
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		values, key string
		want        any
	}{
		{"{replicas: 1, cluster: {bootstrapExpect: 1}}", "join", nil},
		{"cluster: {bootstrapExpect: 0}", "bootstrap-expect", nil},
		{"secrets: {joinToken: ''}", "join-token-file", nil},
		{"{secrets: {rootKey: ''}, config: {oidc-issuer: https://id.example}}", "root-key-file", nil},
		{"http: {behindProxy: true}", "behind-proxy", true},
		{"config: {log-format: text}", "log-format", "text"},
		{"config: {backup-keep: 28}", "backup-keep", float64(28)},
		{"config: {data: /var/lib/belfry/other}", "data", "/var/lib/belfry/other"},
	} {
		if got := settings(t, render(t, tt.values))[tt.key]; got != tt.want {
			t.Errorf("%s: %s is %v, want %v", tt.values, tt.key, got, tt.want)
		}
	}
}

// TestValues renders combinations of values, and decodes the manifests.
func TestValues(t *testing.T) {
	for _, values := range []string{
		"fullnameOverride: clock",
		"{image: {tag: v9, digest: 'sha256:" + strings.Repeat("a", 64) + "'}, imagePullSecrets: [{name: pull}]}",
		"{cluster: {zoneLabel: topology.kubernetes.io/zone}, service: {type: LoadBalancer, annotations: {a: b}}}",
		"{persistence: {storageClass: fast, size: 1.5Ti, annotations: {a: b}}, priorityClassName: high}",
		"persistence: {storageClass: ''}",
		"{podDisruptionBudget: {enabled: false}, networkPolicy: {enabled: false}, serviceAccount: {create: false}}",
		"networkPolicy: {apiFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]}",
		"{nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}], affinity: {podAffinity: {}}}",
		"{podAnnotations: {a: b}, podLabels: {c: d}, serviceAccount: {name: other, annotations: {a: b}}}",
		"{extraArgs: [--log-level=debug], extraEnv: [{name: A, value: b}], extraEnvFrom: [{secretRef: {name: s3}}]}",
		"{extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}]}",
	} {
		render(t, values)
	}
	set := only[*appsv1.StatefulSet](t, render(t, "persistence: {storageClass: ''}"))
	if class := set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName; class == nil || *class != "" {
		t.Errorf("an empty class is not the default class: %v", class)
	}
	policy := only[*networkingv1.NetworkPolicy](t, render(t, ""))
	if len(policy.Spec.Ingress) != 2 || len(policy.Spec.Ingress[0].From) != 0 || len(policy.Spec.Ingress[1].From) != 1 {
		t.Errorf("policy: %+v", policy.Spec)
	}
}

func TestServiceMonitor(t *testing.T) {
	r, err := Render(folder, release, parse(t, "serviceMonitor: {enabled: true, labels: {team: a}}"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(r.Manifests); !strings.Contains(text, "kind: ServiceMonitor") || !strings.Contains(text, "serverName: belfry.timers.svc") {
		t.Error(text)
	}
}

func TestRefusedValues(t *testing.T) {
	for values, want := range map[string]string{
		"{replicas: 1}": "bootstrapExpect",
		"{replicas: 3, cluster: {bootstrapExpect: 1}}":       "install one node first",
		"certManager: {enabled: true}":                       "certManager.issuer.name",
		"ingress: {enabled: true}":                           "ingress.host",
		"{cluster: {bootstrapExpect: 2}}":                    "bootstrapExpect",
		"{terminationGracePeriodSeconds: 10}":                "terminationGracePeriodSeconds",
		"{secrets: {rootKey: ''}}":                           "credentials",
		"{secrets: {nodes: ''}}":                             "nodes",
		"{replica: 5}":                                       "replica",
		"{config: {name: node-1}}":                           "name",
		"{config: {backup-to: {bucket: a}}}":                 "backup-to",
		"{fullnameOverride: Belfry_1}":                       "fullnameOverride",
		"{image: {digest: abc}}":                             "digest",
		"{topologySpread: {host: Always}}":                   "host",
		"{persistence: {size: ten}}":                         "size",
		"{podDisruptionBudget: {enabled: true, atLeast: 2}}": "atLeast",
	} {
		_, err := Render(folder, release, parse(t, values))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", values, err, want)
		}
	}
}

// TestStrictDecoding checks that Decode finds a field that Kubernetes does not know: the other tests count on it.
func TestStrictDecoding(t *testing.T) {
	for manifest, want := range map[string]string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}\n":                "unknown field",
		"apiVersion: v1\nkind: Servant\nmetadata: {name: a}\n":                                 "no kind",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: A}\nspec: {type: B}": "already set",
	} {
		if _, err := Decode([]byte(manifest)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", manifest, err, want)
		}
	}
}

// TestSecrets decodes the secrets that the script prints, and compares their keys with the mounts of the pods.
func TestSecrets(t *testing.T) {
	certs := t.TempDir()
	for _, node := range []string{"belfry-0", "belfry-1"} {
		dir := certs + "/nodes/" + node
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"ca.pem", "gossip.key", "node.pem", "node.key"} {
			if err := os.WriteFile(dir+"/"+file, []byte(node+" "+file+strings.Repeat("x", 200)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	root := certs + "/root.key"
	if err := os.WriteFile(root, []byte("bfy_root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "../../kubernetes/secrets.sh", certs, root).Output()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Decode(out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, o := range objects {
		secret := o.(*corev1.Secret)
		for key, data := range secret.Data {
			got[secret.Name] = append(got[secret.Name], key)
			if len(data) == 0 {
				t.Errorf("%s is empty", key)
			}
		}
		slices.Sort(got[secret.Name])
	}
	nodes := []string{"belfry-0.key", "belfry-0.pem", "belfry-1.key", "belfry-1.pem", "ca.pem", "gossip.key"}
	if !slices.Equal(got["belfry-nodes"], nodes) || !slices.Equal(got["belfry-root-key"], []string{"root.key"}) {
		t.Errorf("%v", got)
	}
}
