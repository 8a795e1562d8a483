package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/belfryhq/belfry/deploy/package/chart"
)

// member is a node of a cluster, in a folder that stands for its pod or container.
type member struct {
	host string // by which the others reach the node
	root string
	env  []string
	args []string
}

// addrOf returns the address that stands for the i-th machine. All of 127.0.0.0/8 is this machine.
func addrOf(i int) string { return fmt.Sprintf("127.0.0.%d", 11+i) }

// cluster is a cluster of nodes in folders.
type cluster struct {
	t       *testing.T
	members []member
	nodes   []*node
	clients []*http.Client
	ca      []byte // of the nodes' certificates
	key     string // the root key
}

// runCluster starts nodes at addresses of their own, and waits until all are ready.
func runCluster(t *testing.T, members []member, ca []byte, rootKey []byte) *cluster {
	t.Helper()
	c := &cluster{t: t, ca: ca, key: strings.TrimSpace(string(rootKey))}
	for _, m := range members {
		c.add(m)
	}
	for i := range members {
		c.start(i)
	}
	for i := range members {
		c.awaitReady(i)
	}
	return c
}

// add adds a node that is not started, and tells its address to all of them.
func (c *cluster) add(m member) {
	c.members, c.nodes = append(c.members, m), append(c.nodes, nil)
	c.clients = append(c.clients, clientAt(c.t, c.ca, addrOf(len(c.clients))+":8400"))
	var hosts strings.Builder
	for i, m := range c.members {
		fmt.Fprintf(&hosts, "%s %s\n", addrOf(i), m.host)
	}
	for _, m := range c.members {
		put(c.t, filepath.Join(m.root, "etc/hosts"), []byte(hosts.String()), 0o644, owner{})
	}
}

func (c *cluster) start(i int) {
	m := c.members[i]
	env := append([]string{
		"BELFRY_SERVE_HTTP=" + addrOf(i) + ":8400", "BELFRY_SERVE_PEER=" + addrOf(i) + ":8500",
	}, m.env...)
	c.nodes[i] = start(c.t, m.root, nonroot, env, m.args...)
}

func (c *cluster) url(i int) string { return "https://" + c.members[i].host + ":8400" }

func (c *cluster) awaitReady(i int) { c.nodes[i].awaitReady(c.clients[i], c.url(i)) }

// call makes a call with the root key at a node, and returns its answer.
func (c *cluster) call(i int, method, path, body string, want int) (answer string) {
	c.t.Helper()
	return mustCall(c.t, c.clients[i], method, c.url(i)+path, c.key, body, want)
}

// restartEach stops and starts one node after the other, as an upgrade does, while another node serves.
func (c *cluster) restartEach() {
	c.t.Helper()
	mustCall(c.t, c.clients[0], http.MethodGet, c.url(0)+"/v1/cluster", "", "", http.StatusUnauthorized)
	c.call(0, http.MethodPut, "/v1/tasks/a", `{"delay": "1h"}`, http.StatusCreated)
	for i := range c.nodes {
		c.nodes[i].stop()
		c.call((i+1)%len(c.nodes), http.MethodGet, "/v1/tasks/a", "", http.StatusOK)
		c.start(i)
		c.awaitReady(i)
	}
}

// TestPods runs three nodes with the settings, variables and files that the chart gives to its pods, and then a fourth
// one.
func TestPods(t *testing.T) {
	program := built(t, "belfry")
	r, err := chart.Render("../../helm/belfry", chart.Release{Name: "belfry", Namespace: "timers"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Decode(r.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	var set *appsv1.StatefulSet
	var config *corev1.ConfigMap
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			set = o
		case *corev1.ConfigMap:
			config = o
		}
	}
	if set == nil || config == nil {
		t.Fatal("the chart has no set, or no settings")
	}
	certs := newCerts(t, program)
	certs.make(set, 0, int(*set.Spec.Replicas))
	files := certs.secrets()
	pod := func(i int) member {
		name := fmt.Sprintf("%s-%d", set.Name, i)
		m := member{
			host: fmt.Sprintf("%s.%s.%s.svc.cluster.local", name, set.Spec.ServiceName, set.Namespace),
			root: t.TempDir(), args: append([]string{"/usr/bin/belfry"}, set.Spec.Template.Spec.Containers[0].Args...),
			env: podEnv(set, name),
		}
		put(t, filepath.Join(m.root, "usr/bin/belfry"), read(t, program), 0o755, owner{})
		put(t, filepath.Join(m.root, "etc/belfry/config/belfry.yaml"), []byte(config.Data["belfry.yaml"]), 0o644, owner{})
		for file, data := range mounted(set, name, files) {
			put(t, filepath.Join(m.root, file), data, 0o440, owner{0, nonroot.group})
		}
		// The kubelet gives a volume to the group of the pod.
		folder(t, filepath.Join(m.root, "var/lib/belfry"), 0o775, owner{0, nonroot.group})
		return m
	}
	var members []member
	for i := range int(*set.Spec.Replicas) {
		members = append(members, pod(i))
	}
	c := runCluster(t, members, files["belfry-nodes"]["ca.pem"], files["belfry-root-key"]["root.key"])
	c.restartEach()

	// A further pod has the same settings, and waits until its token is in the secret.
	next := len(members)
	certs.make(set, next, next+1)
	files = certs.secrets()
	c.add(pod(next))
	c.start(next)
	var token struct {
		Token string `json:"token"`
	}
	answer := c.call(0, http.MethodPost, "/v1/nodes/tokens", "", http.StatusCreated)
	if err := json.Unmarshal([]byte(answer), &token); err != nil || token.Token == "" {
		t.Fatalf("%v: %s", err, answer)
	}
	join := filepath.Join(c.members[next].root, "etc/belfry/join/join.token")
	put(t, join, []byte(token.Token+"\n"), 0o440, owner{0, nonroot.group})
	c.awaitReady(next)
	c.call(next, http.MethodGet, "/v1/tasks/a", "", http.StatusOK)
}

// certs makes the secrets of the pods as docs/operations/kubernetes.md does.
type certs struct {
	t       *testing.T
	program string
	dir     string
}

func newCerts(t *testing.T, program string) *certs {
	t.Helper()
	c := &certs{t, program, t.TempDir()}
	key, err := exec.CommandContext(t.Context(), program, "key", "new-root").Output()
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(c.dir, "root.key"), key, 0o600, owner{})
	return c
}

// make makes the certificates of the pods from one number up to another.
func (c *certs) make(set *appsv1.StatefulSet, from, to int) {
	c.t.Helper()
	verb := "add"
	if from == 0 {
		verb = "init"
	}
	args := []string{"certs", verb, "--dir", filepath.Join(c.dir, "belfry-certs")}
	for i := from; i < to; i++ {
		args = append(args, fmt.Sprintf("%[1]s-%[2]d=%[1]s-%[2]d.%[3]s.%[4]s.svc.cluster.local,%[1]s.%[4]s.svc,localhost",
			set.Name, i, set.Spec.ServiceName, set.Namespace))
	}
	command(c.t, c.program, args...)
}

// secrets returns the entries of the secrets, by the names of the secrets.
func (c *certs) secrets() map[string]map[string][]byte {
	c.t.Helper()
	manifests := command(c.t, "sh", "../../kubernetes/secrets.sh", filepath.Join(c.dir, "belfry-certs"),
		filepath.Join(c.dir, "root.key"))
	objects, err := chart.Decode([]byte(manifests))
	if err != nil {
		c.t.Fatal(err)
	}
	entries := map[string]map[string][]byte{}
	for _, o := range objects {
		secret := o.(*corev1.Secret)
		entries[secret.Name] = secret.Data
	}
	return entries
}

// mounted returns the files of secrets that a pod sees, by their paths, as the kubelet mounts them.
func mounted(set *appsv1.StatefulSet, pod string, secrets map[string]map[string][]byte) map[string][]byte {
	volumes := map[string]*corev1.SecretVolumeSource{}
	for _, v := range set.Spec.Template.Spec.Volumes {
		volumes[v.Name] = v.Secret
	}
	files := map[string][]byte{}
	for _, mount := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		volume := volumes[mount.Name]
		if volume == nil {
			continue
		}
		entries := maps.Clone(secrets[volume.SecretName])
		if len(volume.Items) > 0 {
			maps.DeleteFunc(entries, func(key string, _ []byte) bool {
				return !slices.ContainsFunc(volume.Items, func(i corev1.KeyToPath) bool { return i.Key == key })
			})
		}
		if mount.SubPathExpr != "" {
			files[mount.MountPath] = entries[strings.ReplaceAll(mount.SubPathExpr, "$(BELFRY_SERVE_NAME)", pod)]
			continue
		}
		for key, data := range entries {
			files[mount.MountPath+"/"+key] = data
		}
	}
	return files
}

// podEnv returns the variables of a pod as the kubelet expands them.
func podEnv(set *appsv1.StatefulSet, pod string) []string {
	var env []string
	for _, v := range set.Spec.Template.Spec.Containers[0].Env {
		value := strings.ReplaceAll(v.Value, "$(BELFRY_SERVE_NAME)", pod)
		if v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			value = pod
		}
		env = append(env, v.Name+"="+value)
	}
	return env
}

// TestCompose runs three nodes with the variables of the compose file, and the keys that its script makes.
func TestCompose(t *testing.T) {
	program := built(t, "belfry")
	var compose struct {
		Services map[string]struct {
			Environment map[string]string `json:"environment"`
			ReadOnly    bool              `json:"read_only"`
			CapDrop     []string          `json:"cap_drop"`
			StopGrace   string            `json:"stop_grace_period"`
			Volumes     []string          `json:"volumes"`
		} `json:"services"`
	}
	if err := yaml.Unmarshal(read(t, "../../docker/compose.yaml"), &compose); err != nil {
		t.Fatal(err)
	}
	keys, own := t.TempDir(), t.TempDir()
	for i := range 3 {
		folder(t, filepath.Join(own, fmt.Sprintf("node-%d", i+1)), 0o700, owner{})
	}
	for range 2 { // the second time changes nothing
		script := exec.CommandContext(t.Context(), "sh", "../../docker/keys.sh", "cluster")
		script.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "KEYS="+keys, "OWN="+own)
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var members []member
	for i := range 3 {
		name := fmt.Sprintf("node-%d", i+1)
		service := compose.Services[name]
		volumes := []string{fmt.Sprintf("keys-%d:/keys:ro", i+1), name + ":/var/lib/belfry"}
		if !service.ReadOnly || service.StopGrace != "60s" || len(service.CapDrop) != 1 ||
			!slices.Equal(service.Volumes, volumes) {
			t.Errorf("%s: %+v", name, service)
		}
		m := member{host: name, root: t.TempDir(), args: []string{"/usr/bin/belfry", "serve"}}
		m.env = []string{"BELFRY_SERVE_DATA=/var/lib/belfry"} // of the image
		for variable, value := range service.Environment {
			if variable != "BELFRY_SERVE_HTTP" && variable != "BELFRY_SERVE_PEER" {
				m.env = append(m.env, variable+"="+value)
			}
		}
		put(t, filepath.Join(m.root, "usr/bin/belfry"), read(t, program), 0o755, owner{})
		folder(t, filepath.Join(m.root, "var/lib/belfry"), 0o700, nonroot)
		copyTo(t, filepath.Join(own, name), filepath.Join(m.root, "keys"), nonroot)
		members = append(members, m)
	}
	ca := read(t, filepath.Join(own, "node-1/ca.pem"))
	runCluster(t, members, ca, read(t, filepath.Join(keys, "root.key"))).restartEach()
}

// copyTo copies a folder for another owner.
func copyTo(t *testing.T, from, to string, of owner) {
	t.Helper()
	folder(t, to, 0o700, of)
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			folder(t, target, 0o700, of)
			return nil
		}
		info, err := entry.Info()
		if err == nil {
			put(t, target, read(t, path), info.Mode().Perm(), of)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
