package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
)

// made returns a new folder with these nodes.
func made(t *testing.T, nodes ...Node) *Folder {
	t.Helper()
	f, err := Init(Config{Dir: filepath.Join(t.TempDir(), "certs")}, nodes)
	assert.NoError(t, err)
	return f
}

// opened reads a node's files as the node does.
func opened(t *testing.T, f *Folder, name string) *peerkeys.Keys {
	t.Helper()
	keys, err := peerkeys.Open(peerkeys.Config{Files: NodeFiles(f.NodeDir(name)), NodeName: name})
	assert.NoError(t, err)
	return keys
}

// accepts reports whether a node with the keys a accepts a certificate and the packets of a node with the keys b.
func accepts(a, b *peerkeys.Keys) (certificate, packets bool) {
	_, err := b.Credentials().Cert.Leaf.Verify(x509.VerifyOptions{
		Roots: a.Credentials().Roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	used := func(key []byte) bool { return bytes.Equal(key, b.Gossip()[0]) }
	return err == nil, slices.ContainsFunc(a.Gossip(), used)
}

func TestInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	aside := filepath.Join(filepath.Dir(dir), ".certs.unfinished", "nodes") // of a process that was killed
	assert.NoError(t, os.MkdirAll(aside, 0o700))
	nodes := []Node{{Name: "n1", Hosts: []string{"n1.example", "10.0.0.1", "::1"}}, {Name: "N-2"}}
	f, err := Init(Config{Dir: dir}, nodes)
	assert.NoError(t, err)
	got := modes(t, dir)
	want := map[string]fs.FileMode{
		"cluster.pem": 0o600, "nodes/n1/ca.pem": 0o644, "nodes/n1/node.pem": 0o644, "nodes/n1/node.key": 0o600,
		"nodes/n1/gossip.key": 0o600, "nodes/N-2/ca.pem": 0o644, "nodes/N-2/node.pem": 0o644, "nodes/N-2/node.key": 0o600,
		"nodes/N-2/gossip.key": 0o600,
	}
	for path, mode := range want {
		assert.Equal(t, got[path], mode, "%s has mode", path)
	}
	assert.Equal(t, len(got), len(want), "made %v", got)
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("beside the folder: %v, %v", entries, err)
	}
	a, b := opened(t, f, "n1"), opened(t, f, "N-2")
	if cert, packets := accepts(a, b); !cert || !packets {
		t.Errorf("the nodes do not accept each other: %v, %v", cert, packets)
	}
	back, err := f.Nodes()
	if err != nil || len(back) != 2 || back[0].Name != "N-2" || !slices.Equal(back[1].Hosts, nodes[0].Hosts) {
		t.Errorf("read back %+v, %v", back, err)
	}
	if _, err := Init(Config{Dir: dir}, nodes); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an existing folder: %v", err)
	}
}

// modes returns the files below a folder with their modes.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && !e.IsDir() {
			found[filepath.ToSlash(name)] = info.Mode()
		}
		if e.IsDir() && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	assert.NoError(t, err)
	return found
}

func TestAdd(t *testing.T) {
	f := made(t, Node{Name: "n1"})
	before := opened(t, f, "n1")
	again, err := Open(Config{Dir: f.cfg.Dir})
	assert.NoError(t, err)
	assert.NoError(t, again.Add([]Node{{Name: "n2"}}))
	if cert, packets := accepts(before, opened(t, f, "n2")); !cert || !packets {
		t.Errorf("a later node is not accepted: %v, %v", cert, packets)
	}
	if !opened(t, f, "n1").Credentials().Cert.Leaf.Equal(before.Credentials().Cert.Leaf) {
		t.Error("the first node's certificate has changed")
	}
	assert.ErrorIs(t, again.Add([]Node{{Name: "n3"}, {Name: "n1"}}), fs.ErrExist, "a node that is there")
	assert.ErrorIs(t, again.Add([]Node{{Name: "N1"}}), fs.ErrExist, "a name that certificates do not tell from another")
	if _, err := os.Stat(f.NodeDir("n3")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half of a refused call was carried out: %v", err)
	}
}

func TestRenew(t *testing.T) {
	f := made(t, Node{Name: "n1", Hosts: []string{"h"}}, Node{Name: "n2"})
	one, two := opened(t, f, "n1"), opened(t, f, "n2")
	assert.NoError(t, f.Renew([]string{"n1"}))
	renewed := opened(t, f, "n1").Credentials().Cert.Leaf
	old := one.Credentials().Cert.Leaf
	if renewed.Equal(old) || renewed.CheckSignatureFrom(f.secrets.authorities.used.cert) != nil ||
		!slices.Equal(renewed.DNSNames, old.DNSNames) {
		t.Errorf("renewed as %v", renewed.DNSNames)
	}
	if !opened(t, f, "n2").Credentials().Cert.Leaf.Equal(two.Credentials().Cert.Leaf) {
		t.Error("the other node's certificate has changed")
	}
	assert.ErrorIs(t, f.Renew([]string{"n9"}), fs.ErrNotExist, "an unknown node")
}

// While the steps of both rotations reach the nodes one after the other, nodes at neighbouring steps accept each other.
// At the end, a node accepts neither the former authority nor the former gossip key.
func TestNeighbouringStepsAcceptEachOther(t *testing.T) {
	f := made(t, Node{Name: "n1"})
	stages := []*peerkeys.Keys{opened(t, f, "n1")}
	for _, rotate := range []func(Step) (bool, error){f.RotateGossip, f.RotateAuthority} {
		for _, step := range []Step{Install, Use, Remove} {
			for _, want := range []bool{true, false} { // a repeated step changes nothing
				if changed, err := rotate(step); changed != want || err != nil {
					t.Fatalf("%s: %v, %v", step, changed, err)
				}
			}
			stages = append(stages, opened(t, f, "n1"))
		}
	}
	for i := range stages[1:] {
		for _, pair := range [][2]int{{i, i + 1}, {i + 1, i}} {
			if cert, packets := accepts(stages[pair[0]], stages[pair[1]]); !cert || !packets {
				t.Errorf("stage %d of stage %d: certificate %v, packets %v", pair[0], pair[1], cert, packets)
			}
		}
	}
	if cert, packets := accepts(stages[len(stages)-1], stages[0]); cert || packets {
		t.Errorf("the former ones still count: certificate %v, packets %v", cert, packets)
	}
	again, err := Open(f.cfg)
	assert.NoError(t, err)
	if changed, err := again.RotateGossip(Install); !changed || err != nil {
		t.Errorf("a second rotation: %v, %v", changed, err)
	}
}

// Each step is refused out of order, also after the folder was opened again.
func TestStepsHaveAnOrder(t *testing.T) {
	f := made(t, Node{Name: "n1"})
	for _, tt := range []struct{ made, refused Step }{{"", Use}, {Install, Remove}, {Use, Install}} {
		for _, rotate := range []func(*Folder, Step) (bool, error){(*Folder).RotateGossip, (*Folder).RotateAuthority} {
			if tt.made != "" {
				_, err := rotate(f, tt.made)
				assert.NoError(t, err)
			}
			again, err := Open(f.cfg)
			assert.NoError(t, err)
			if _, err := rotate(again, tt.refused); !errors.Is(err, errOrder) {
				t.Errorf("%q after %q: %v", tt.refused, tt.made, err)
			}
			f = again
		}
	}
}

// After a command was killed before one of its writes, the folder says so, and the repeated command completes it.
func TestKilledCommand(t *testing.T) {
	for _, file := range []string{caFile, gossipFile, certFile, keyFile} {
		f := made(t, Node{Name: "n1"})
		path := filepath.Join(f.NodeDir("n1"), file)
		old, err := os.ReadFile(path)
		assert.NoError(t, err)
		rotate(t, f, Install)
		rotate(t, f, Use)
		if err := os.WriteFile(path, old, 0o600); err != nil { // as if the last write were missing
			t.Fatal(err)
		}
		assert.Contains(t, statesOf(t, f.cfg.Dir), string(Faulty), "%s is old", file)
		again, err := Open(f.cfg)
		assert.NoError(t, err)
		rotate(t, again, Use)
		if states := statesOf(t, f.cfg.Dir); strings.Contains(states, string(Faulty)) {
			t.Errorf("%s, repeated: %s", file, states)
		}
	}
}

// rotate makes a step of both rotations.
func rotate(t *testing.T, f *Folder, step Step) {
	t.Helper()
	for _, rotate := range []func(Step) (bool, error){f.RotateAuthority, f.RotateGossip} {
		_, err := rotate(step)
		assert.NoError(t, err)
	}
}

// statesOf returns the states of all entries of a folder.
func statesOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := Inspect(dir)
	assert.NoError(t, err)
	var states []string
	for _, e := range entries {
		states = append(states, e.Kind+" "+string(e.State))
	}
	return strings.Join(states, ", ")
}

func TestInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := Init(Config{Dir: filepath.Join(t.TempDir(), "certs"), AuthorityValidity: 600 * 24 * time.Hour},
			[]Node{{Name: "n1"}})
		assert.NoError(t, err)
		for _, tt := range []struct {
			days int
			want string
		}{
			{0, "authority valid, gossip valid, node valid"},
			{336, "authority valid, gossip valid, node ends soon"},
			{30, "authority valid, gossip valid, node ended"},
		} {
			time.Sleep(time.Duration(tt.days) * 24 * time.Hour)
			for _, dir := range []string{f.cfg.Dir, f.NodeDir("n1")} {
				assert.Equal(t, statesOf(t, dir), tt.want, "%s", dir)
			}
		}
		assert.NoError(t, f.Renew(nil))
		ends := opened(t, f, "n1").Credentials().Cert.Leaf.NotAfter
		if !ends.Equal(f.secrets.authorities.used.cert.NotAfter) {
			t.Errorf("the certificate ends at %v, and its authority at %v", ends, f.secrets.authorities.used.cert.NotAfter)
		}
	})
}

func TestFaultySecrets(t *testing.T) {
	f := made(t, Node{Name: "n1"})
	path := filepath.Join(f.cfg.Dir, secretsFile)
	sound, err := os.ReadFile(path)
	assert.NoError(t, err)
	other, err := made(t, Node{Name: "n1"}).secrets.encode()
	assert.NoError(t, err)
	keyAt := bytes.Index(sound, []byte("-----BEGIN PRIVATE"))
	for name, data := range map[string][]byte{
		"empty": nil, "cut off": sound[:len(sound)-40], "without the key": sound[:keyAt],
		"of another": slices.Concat(sound[:keyAt], other[bytes.Index(other, []byte("-----BEGIN PRIVATE")):]),
		"role":       bytes.ReplaceAll(sound, []byte("Role: used"), []byte("Role: king")),
	} {
		assert.NoError(t, os.WriteFile(path, data, 0o600))
		if _, err := Open(f.cfg); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseNode(t *testing.T) {
	for text, want := range map[string]string{
		"n1": "n1 n1", "n1=10.0.0.1": "n1 10.0.0.1", "n1=h.example,::1": "n1 h.example", "": "!", "a.b": "!", "n1=": "!",
		"n1=h:8500": "!", "n1=a,,b": "!", "n1=a b": "!", strings.Repeat("x", 64): "!", "n1=*.example": "!",
		"n1=n2.Node.belfry": "!",
	} {
		got := "!"
		if n, err := ParseNode(text); err == nil {
			got = n.Name + " " + n.Host()
		}
		assert.Equal(t, got, want, "%q", text)
	}
}

func TestConfigIsChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	for name, tt := range map[string]struct {
		cfg   Config
		nodes []Node
	}{
		"no folder":        {Config{}, []Node{{Name: "n1"}}},
		"too short":        {Config{Dir: dir, NodeValidity: time.Minute}, []Node{{Name: "n1"}}},
		"authority first":  {Config{Dir: dir, AuthorityValidity: 24 * time.Hour}, []Node{{Name: "n1"}}},
		"twice":            {Config{Dir: dir}, []Node{{Name: "n1"}, {Name: "N1"}}},
		"no node's name":   {Config{Dir: dir}, []Node{{Name: "n/1"}}},
		"no parent folder": {Config{Dir: "/dev/null/certs"}, []Node{{Name: "n1"}}},
	} {
		_, err := Init(tt.cfg, tt.nodes)
		assert.Error(t, err, "%s was accepted", name)
	}
	_, err := os.Stat(dir)
	assert.ErrorIs(t, err, fs.ErrNotExist, "a refused call made the folder")
}
