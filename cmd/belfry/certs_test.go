package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// certsDir makes the certificates of some nodes and returns their folder and the output.
func certsDir(t *testing.T, args ...string) (dir, out string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	out, code := belfry(t, append([]string{"certs", "init", "--dir", dir}, args...)...)
	assert.MustEqual(t, code, 0, "%s", out)
	return dir, out
}

func TestCertsInitPrintsTheCommands(t *testing.T) {
	for _, tt := range []struct{ nodes, want string }{
		{"a=10.0.0.1", "--advertise-peer 10.0.0.1:8500 --peer-cert /etc/belfry/node.pem --peer-key /etc/belfry/node.key " +
			"--peer-ca /etc/belfry/ca.pem --gossip-key-file /etc/belfry/gossip.key --bootstrap-expect 1\n"},
		{"a b=h.example,::1 c=::2", "--join h.example:8500,[::2]:8500 --bootstrap-expect 3\n"},
		{"a b c d", "--join a:8500,b:8500,c:8500 --join-token-file /etc/belfry/join.token\n"}, // the fourth joins
		{"a b c d e", "--join b:8500,c:8500,d:8500,e:8500 --bootstrap-expect 5\n"},
	} {
		dir, out := certsDir(t, strings.Fields(tt.nodes)...)
		if !strings.Contains(out, tt.want) || !strings.Contains(out, filepath.Join(dir, "cluster.pem")) {
			t.Errorf("%s:\n%s", tt.nodes, out)
		}
	}
	dir, _ := certsDir(t, "a", "b", "c")
	out, code := belfry(t, "certs", "add", "--dir", dir, "--on-node", "/srv", "--peer-port", "77", "d=10.0.0.4")
	if code != 0 || !strings.Contains(out, "10.0.0.4:/srv") || !strings.Contains(out, "--join a:77,b:77,c:77 --join-token-file /srv/join.token\n") ||
		!strings.Contains(out, "belfry node token create") {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestCertsRefuses(t *testing.T) {
	dir, _ := certsDir(t, "a")
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"init --dir " + dir + " a", exitFailed, "never overwritten"},
		{"init --dir " + dir + "2 a.b", exitUsage, `node name "a.b"`},
		{"init --dir " + dir + "2 a=b:8500", exitUsage, `host "b:8500"`},
		{"init --dir " + dir + "2 a a", exitFailed, "node a is there twice"},
		{"init --dir " + dir + "2 --valid-for 11y a", exitUsage, "--valid-for"},
		{"init --dir " + dir + "2 --valid-for 4000d a", exitFailed, "an authority valid for"},
		{"init", exitUsage, "NAME is missing"},
		{"add --dir " + dir + " a", exitFailed, "never overwritten"},
		{"add --dir " + dir + "2 b", exitFailed, "no such file"},
		{"rotate --dir " + dir + " b", exitFailed, "node b"},
		{"rotate --dir " + dir + " --gossip swap", exitUsage, `--gossip: "swap" is not install, use or remove`},
		{"rotate --dir " + dir + " --ca use", exitFailed, "install is next, not use"},
		{"rotate --dir " + dir + " --ca install --gossip install", exitUsage, "give one of --gossip and --ca"},
		{"rotate --dir " + dir + " --ca install a", exitUsage, "concern all nodes"},
		{"show --dir " + dir + "2", exitFailed, "no such file"},
	} {
		out, code := belfry(t, append([]string{"certs"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(out, tt.says) {
			t.Errorf("%s: %d, want %d and %q\n%s", tt.args, code, tt.code, tt.says, out)
		}
	}
}

func TestCertsShow(t *testing.T) {
	dir, _ := certsDir(t, "a=10.0.0.1", "b")
	if out, code := belfry(t, "certs", "rotate", "--dir", dir, "--ca", "install"); code != 0 ||
		!strings.Contains(out, "belfry certs rotate --dir "+dir+" --ca use") {
		t.Fatalf("%d\n%s", code, out)
	}
	out, code := belfry(t, "certs", "show", "--dir", dir)
	for _, want := range []string{"authority, next", "a.node.belfry 10.0.0.1", "(in 364 days)", "valid"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d, want %q\n%s", code, want, out)
		}
	}
	if entries := showCerts(t, dir); len(entries) != 5 || !slices.Contains(entries[3].Names, "a.node.belfry") {
		t.Errorf("as JSON: %+v", entries)
	}
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "nodes", "b", "node.key"), nil, 0o600))
	out, code = belfry(t, "certs", "show", "--dir", dir)
	if code != exitFailed || !strings.Contains(out, "FAULTY: ") {
		t.Errorf("%d\n%s", code, out)
	}
}

// showCerts returns what `belfry certs show --json` prints.
func showCerts(t *testing.T, dir string) (entries []certs.Entry) {
	t.Helper()
	out, code := belfry(t, "certs", "show", "--dir", dir, "--json")
	assert.MustEqual(t, code, 0, "%s", out)
	for lines := json.NewDecoder(strings.NewReader(out)); lines.More(); {
		var e certs.Entry
		assert.NoError(t, lines.Decode(&e))
		entries = append(entries, e)
	}
	return entries
}

// TestRotationOfRealNodes starts three nodes with the printed commands. They take calls while their certificates, the
// gossip key and the authority are replaced, and refuse none. At the end each node starts anew and finds the others with
// the last keys. The test needs a machine for itself, on which no leader is silent for an election timeout; see
// TestRotationRefusesNothing.
func TestRotationOfRealNodes(t *testing.T) {
	gated.Need(t, gated.Timed)
	gated.Need(t, gated.Long)
	port := freePeerPort(t)
	dir, out := certsDir(t, "--peer-port", port, "n1=127.0.0.1", "n2=127.0.0.2", "n3=127.0.0.3")
	var nodes []*secured
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "belfry serve") {
			nodes = append(nodes, newSecured(t, dir, port, len(nodes)+1, strings.Fields(line)[2:]))
		}
	}
	if len(nodes) != 3 {
		t.Fatalf("%d commands in:\n%s", len(nodes), out)
	}
	var starting sync.WaitGroup
	for _, n := range nodes {
		starting.Go(func() { n.start(t) })
	}
	starting.Wait()
	for _, n := range nodes {
		dial(t, n.addr)
		n.call(t)
	}
	for _, step := range rotations {
		out, code := belfry(t, append([]string{"certs", "rotate", "--dir", dir}, step...)...)
		assert.MustEqual(t, code, 0, "%v:\n%s", step, out)
		for j, n := range nodes {
			n.uses(t, filepath.Join(dir, "nodes", fmt.Sprint("n", j+1)))
		}
	}
	total := 0
	for _, n := range nodes {
		total += n.hush()
	}
	if total < 100 {
		t.Errorf("only %d calls", total)
	}
	t.Logf("%d calls", total)
	for _, n := range nodes {
		n.restart(t)
	}
	for _, n := range nodes {
		assert.Equal(t, n.stop(), nil)
	}
}

// freePeerPort returns a port that is free at four loopback addresses.
func freePeerPort(t *testing.T) string {
	t.Helper()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	defer first.Close()
	port := first.Addr().(*net.TCPAddr).Port
	for _, host := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			t.Skipf("this machine has one loopback address only: %v", err)
		}
		defer l.Close()
	}
	return strconv.Itoa(port)
}

// secured is a node with certificates, and a caller of it.
type secured struct {
	args []string
	addr string
	key  string // that calls carry
	stop func() error

	hush func() int // ends the caller, and returns the number of its calls
}

// newSecured changes the printed arguments as little as one machine and the test need.
func newSecured(t *testing.T, dir, port string, number int, args []string) *secured {
	host := fmt.Sprint("127.0.0.", number)
	replace := strings.NewReplacer("/var/lib/belfry", t.TempDir(), "/etc/belfry",
		filepath.Join(dir, "nodes", fmt.Sprint("n", number)))
	n := &secured{key: rootKey(t, filepath.Join(dir, "nodes", fmt.Sprint("n", number), "root.key"))}
	for _, arg := range args {
		switch arg {
		case ":8400":
			arg = host + ":0"
		case ":" + port:
			arg = host + arg
		}
		n.args = append(n.args, replace.Replace(arg))
	}
	n.args = append(n.args, "--http-plain-loopback")
	return n
}

// rootKey makes a root key as the printed command does, and returns its text.
func rootKey(t *testing.T, path string) string {
	t.Helper()
	text, code := belfry(t, "key", "new-root")
	text, _, _ = strings.Cut(text, "\n")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	return text
}

func (n *secured) start(t *testing.T) { n.addr, n.stop = serving(t, n.args...) }

// restart stops the node in order, starts it again, and waits until it is ready.
func (n *secured) restart(t *testing.T) {
	t.Helper()
	assert.NoError(t, n.stop())
	n.start(t)
	dial(t, n.addr)
}

// call begins to schedule a task through the node every few milliseconds. Each call must succeed.
func (n *secured) call(t *testing.T) {
	stop, ended := make(chan struct{}), make(chan int)
	tasks := fmt.Sprintf("http://%s/v1/tasks/%s-", n.addr, strings.ReplaceAll(n.addr, ":", "-"))
	go func() {
		made := 0
		defer func() { ended <- made }()
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			made++
			if status, body := schedule(t, tasks+strconv.Itoa(made), n.key); status != http.StatusCreated {
				t.Errorf("call %d through %s: %d %s", made, tasks, status, body)
				return
			}
		}
	}()
	n.hush = sync.OnceValue(func() int { close(stop); return <-ended })
	t.Cleanup(func() { n.hush() })
}

func schedule(t *testing.T, url, key string) (status int, body string) {
	req, err := http.NewRequestWithContext(t.Context(), "PUT", url, strings.NewReader(`{"delay": "1h"}`))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// uses waits until the node's metrics show the certificates and keys in a folder, and no others.
func (n *secured) uses(t *testing.T, dir string) {
	t.Helper()
	want := fingerprints(t, dir)
	awaitNil(t, func() error {
		if got := n.fingerprints(t); !slices.Equal(got, want) {
			return fmt.Errorf("uses %v, not %v", got, want)
		}
		return nil
	})
}

func (n *secured) fingerprints(t *testing.T) (found []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+n.addr+"/metrics", http.NoBody)
	assert.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+n.key)
	_, text := exchange(t, req)
	for line := range strings.Lines(text) {
		if _, rest, ok := strings.Cut(line, `belfry_peer_key_info{fingerprint="`); ok {
			found = append(found, rest[:strings.IndexByte(rest, '"')])
		}
	}
	slices.Sort(found)
	return found
}
