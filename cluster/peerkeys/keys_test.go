package peerkeys_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
)

// looks is a time in which a node looks at its files at least twice.
const looks = 5 * time.Second

// world is a node's files, and the node's view of them while it runs.
type world struct {
	*peerkeys.Keys
	t        *testing.T
	folder   *certs.Folder
	dir      string // the node's copy
	registry *prometheus.Registry
	log      assert.Log
	reload   chan struct{}
	gossip   [][]byte // last passed on
}

// run opens the files of the node n1 and watches them until the test ends. It must be called in a bubble.
func run(t *testing.T) *world {
	t.Helper()
	w := prepare(t)
	w.watch(0)
	return w
}

// prepare makes the files of the node n1.
func prepare(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), registry: prometheus.NewRegistry(), reload: make(chan struct{})}
	var err error
	w.folder, err = certs.Init(certs.Config{Dir: filepath.Join(t.TempDir(), "certs")}, []certs.Node{{Name: "n1"}, {Name: "n2"}})
	assert.NoError(t, err)
	w.copy("n1")
	return w
}

// watch opens the files, and looks at them at an interval until the test ends. An interval of zero is the usual one, too
// short for tests that take months.
func (w *world) watch(every time.Duration) {
	w.t.Helper()
	var err error
	w.Keys, err = peerkeys.Open(peerkeys.Config{
		Files: certs.NodeFiles(w.dir), NodeName: "n1", Every: every, Reload: w.reload, Registerer: w.registry,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	assert.NoError(w.t, err)
	go w.Run(w.t.Context(), func(keys [][]byte) error { w.gossip = keys; return nil })
	synctest.Wait()
}

// copy copies files of a node, or all of them, to the node of the test.
func (w *world) copy(name string, files ...string) {
	w.t.Helper()
	if files == nil {
		files = []string{"node.pem", "node.key", "ca.pem", "gossip.key"}
	}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(w.folder.NodeDir(name), file))
		assert.NoError(w.t, err)
		w.write(file, data)
	}
}

func (w *world) write(file string, data []byte) {
	w.t.Helper()
	assert.NoError(w.t, os.WriteFile(filepath.Join(w.dir, file), data, 0o600))
}

func (w *world) read(file string) []byte {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, file))
	assert.NoError(w.t, err)
	return data
}

// fingerprint returns that of the certificate in use.
func (w *world) fingerprint() string { return peerkeys.Fingerprint(w.Credentials().Cert.Leaf.Raw) }

// logged returns the number of log lines with a text, and forgets all lines.
func (w *world) logged(text string) int {
	synctest.Wait()
	return w.log.Take(text)
}

// metric returns the value of a gauge or counter with one label.
func (w *world) metric(name, label string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	assert.NoError(w.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	w.t.Fatalf("no metric %s of %s", name, label)
	return 0
}

// New files are in use some seconds after they were copied, and at once after a reload.
func TestNewFilesAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		for i, arrive := range []func(){func() { time.Sleep(looks) }, func() { w.reload <- struct{}{} }} {
			before := w.fingerprint()
			assert.NoError(t, w.folder.Renew(nil))
			w.copy("n1")
			arrive()
			synctest.Wait()
			if w.fingerprint() == before {
				t.Error("the old certificate is in use")
			}
			assert.Equal(t, w.metric("belfry_peer_key_changes_total", "certificate"), float64(i+1), "changes")
			assert.Equal(t, w.logged("a new certificate is in use"), 1, "logged N times")
		}
		if w.metric("belfry_peer_key_changes_total", "gossip") != 0 || w.gossip != nil {
			t.Error("unchanged gossip keys were passed on")
		}
		end := time.Unix(int64(w.metric("belfry_certificate_expiry_timestamp_seconds", "node")), 0)
		if days := time.Until(end).Hours() / 24; days < 364 || days > 365 {
			t.Errorf("%v days are left", days)
		}
	})
}

func TestNewGossipKeysAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		first := w.Gossip()
		for _, step := range []certs.Step{certs.Install, certs.Use, certs.Remove} {
			_, err := w.folder.RotateGossip(step)
			assert.NoError(t, err)
			w.copy("n1")
			time.Sleep(looks)
			synctest.Wait()
			if !slices.EqualFunc(w.gossip, w.Gossip(), bytes.Equal) {
				t.Errorf("%s: %d keys were passed on, %d are there", step, len(w.gossip), len(w.Gossip()))
			}
			assert.Equal(t, bytes.Equal(w.Gossip()[0], first[0]), step == certs.Install, "%s: the first key is in use", step)
		}
		assert.Equal(t, len(w.Gossip()), 1, "keys at the end")
	})
}

// faults are ways in which new files may be faulty, with a part of the warning.
var faults = map[string]struct {
	make func(w *world)
	says string
}{
	"a certificate is cut off": {func(w *world) {
		data := w.read("node.pem")
		w.write("node.pem", data[:len(data)/2])
	}, "cut off"},
	"the authorities are cut off": {func(w *world) {
		data := w.read("ca.pem")
		w.write("ca.pem", append(data, data[:len(data)/2]...))
	}, "cut off"},
	"a file is empty": {func(w *world) { w.write("ca.pem", nil) }, "has no certificate"},
	"a file is missing": {func(w *world) {
		assert.NoError(w.t, os.Remove(filepath.Join(w.dir, "node.key")))
	}, "no such file"},
	"the key is another's":         {func(w *world) { w.copy("n2", "node.key") }, "does not match"},
	"the certificate is another's": {func(w *world) { w.copy("n2") }, "does not name this node"},
	"the authority is another": {func(w *world) {
		other, err := certs.Init(certs.Config{Dir: filepath.Join(w.t.TempDir(), "c")}, []certs.Node{{Name: "n1"}})
		assert.NoError(w.t, err)
		w.folder = other
		w.copy("n1", "ca.pem")
	}, "is not from an authority"},
	"the certificate has ended": {func(w *world) {
		cfg := certs.Config{Dir: filepath.Join(w.t.TempDir(), "c"), NodeValidity: time.Hour}
		other, err := certs.Init(cfg, []certs.Node{{Name: "n1"}})
		assert.NoError(w.t, err)
		time.Sleep(time.Hour + time.Second)
		w.folder = other
		w.copy("n1", "node.pem", "node.key", "ca.pem")
	}, "is not valid now"},
}

// Faulty files change nothing but a warning and a metric, until they are sound again.
func TestFaultyFilesAreNotTaken(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := run(t)
				own := w.folder
				before := w.fingerprint()
				fault.make(w)
				time.Sleep(looks)
				assert.Equal(t, w.logged("level=WARN"), 1, "warnings")
				w.reload <- struct{}{} // says it again
				synctest.Wait()
				assert.Contains(t, w.log.String(), fault.says, "says")
				time.Sleep(10 * looks)
				assert.Equal(t, w.logged("level=WARN"), 1, "warnings")
				if w.fingerprint() != before || w.metric("belfry_peer_key_files_refused", "certificate") != 1 {
					t.Error("faulty files were taken")
				}
				w.folder = own
				w.copy("n1")
				time.Sleep(looks)
				if w.metric("belfry_peer_key_files_refused", "certificate") != 0 || w.fingerprint() != before {
					t.Error("sound files were not taken")
				}
			})
		})
	}
}

// A copy that is under way is not judged: the files settle first.
func TestHalfACopyIsNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		assert.NoError(t, w.folder.Renew(nil))
		for _, file := range []string{"node.pem", "ca.pem", "node.key"} { // for a while, the key does not fit
			w.copy("n1", file)
			time.Sleep(1500 * time.Millisecond) // a look falls between the first file and the last
		}
		time.Sleep(looks)
		assert.Equal(t, w.logged("level=WARN"), 0, "warnings")
	})
}

// A fault in the gossip keys does not hold up a new certificate.
func TestFaultyGossipKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		before, keys := w.fingerprint(), w.Gossip()
		assert.NoError(t, w.folder.Renew(nil))
		w.copy("n1")
		w.write("gossip.key", w.read("gossip.key")[:20])
		time.Sleep(looks)
		if n := w.logged("does not hold 32 bytes"); n != 1 || w.metric("belfry_peer_key_files_refused", "gossip") != 1 {
			t.Errorf("%d warnings", n)
		}
		if w.fingerprint() == before || w.gossip != nil || !slices.EqualFunc(w.Gossip(), keys, bytes.Equal) {
			t.Error("the new certificate is not in use, or the keys are not the old ones")
		}
	})
}

// A node starts with a certificate that has ended, and says so each hour until the certificate is renewed.
func TestStartWithAnEndedCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := prepare(t)
		time.Sleep(366 * 24 * time.Hour)
		w.watch(10 * time.Minute)
		if left := time.Until(w.Credentials().Ends()); left > 0 {
			t.Errorf("%v are left", left)
		}
		w.logged("")
		time.Sleep(3 * time.Hour)
		assert.Equal(t, w.logged("level=ERROR"), 3, "errors in three hours")
		assert.NoError(t, w.folder.Renew(nil))
		w.copy("n1")
		time.Sleep(time.Hour)
		w.logged("")
		time.Sleep(3 * time.Hour)
		assert.Equal(t, w.logged("level="), 0, "lines after the renewal")
	})
}

// From thirty days before the end on, there is a warning each day, and after the end an error each hour.
func TestWarningsBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := prepare(t)
		w.watch(time.Hour)
		time.Sleep(334 * 24 * time.Hour)
		assert.Equal(t, w.logged("level=WARN"), 0, "warnings a month before the end")
		time.Sleep(10*24*time.Hour + time.Hour)
		if n := w.logged("ends soon"); n < 9 || n > 10 {
			t.Errorf("%d warnings in ten days", n)
		}
		time.Sleep(21 * 24 * time.Hour)
		w.logged("")
		time.Sleep(3 * time.Hour)
		assert.Equal(t, w.logged("level=ERROR"), 3, "errors in three hours after the end")
	})
}

// TestWarningsOfModes checks that the node starts, and warns of each file of keys that others may read or change.
func TestWarningsOfModes(t *testing.T) {
	for _, c := range []struct {
		key, gossip os.FileMode
		warnings    int
	}{{0o600, 0o640, 0}, {0o644, 0o600, 1}, {0o600, 0o660, 1}, {0o604, 0o644, 2}} {
		synctest.Test(t, func(t *testing.T) {
			w := prepare(t)
			for file, mode := range map[string]os.FileMode{"node.key": c.key, "gossip.key": c.gossip} {
				assert.NoError(t, os.Chmod(filepath.Join(w.dir, file), mode))
			}
			w.watch(0)
			if n := w.logged("others may read or change"); n != c.warnings {
				t.Errorf("node.key %o, gossip.key %o: %d warnings", c.key, c.gossip, n)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, fault := range faults {
		if name == "the certificate has ended" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := run(t)
				fault.make(w)
				_, err := peerkeys.Open(peerkeys.Config{Files: certs.NodeFiles(w.dir), NodeName: "n1"})
				if err == nil || !strings.Contains(err.Error(), fault.says) || !strings.Contains(err.Error(), w.dir) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// The metrics name each certificate and key in use, so that an operator can compare the nodes.
func TestInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		entries, err := certs.Inspect(w.dir)
		assert.NoError(t, err)
		var want strings.Builder
		want.WriteString("# HELP belfry_peer_key_info 1 for each certificate and gossip key in use, by kind (node, authority " +
			"or gossip), place in its file and fingerprint.\n# TYPE belfry_peer_key_info gauge\n")
		for _, e := range entries {
			want.WriteString(`belfry_peer_key_info{fingerprint="` + e.Fingerprint + `",kind="` + e.Kind + `",place="1"} 1` + "\n")
		}
		assert.Equal(t, testutil.GatherAndCompare(w.registry, strings.NewReader(want.String()), "belfry_peer_key_info"), nil)
	})
}
