// Package importstest runs `belfry import` against real nodes and the servers of other schedulers, for the tests of the
// sources. `make test-imports` builds belfry, installs the servers, and names them in Variable.
package importstest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// Variable is the environment variable that lists the servers and libraries of tests, with commas.
const Variable = "BELFRY_TEST_IMPORTS"

// Need skips a test unless Variable lists its server or library.
func Need(t *testing.T, name string) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv(Variable), ","), name) {
		t.Skipf("%s does not name %s: make test-imports", Variable, name)
	}
}

// FreeAddr returns an address on loopback at which nothing listens.
func FreeAddr(t *testing.T) string {
	t.Helper()
	addrs, err := local.FreeAddrs(1)
	assert.NoError(t, err)
	return addrs[0]
}

// Serve runs a server until the test ends, and returns once ready returns nil. It logs the server's output if the test
// fails.
func Serve(t *testing.T, c child.Config, ready func() error) *child.Child {
	t.Helper()
	c.Log = filepath.Join(t.TempDir(), "log")
	p, err := child.Start(c)
	assert.NoError(t, err)
	t.Cleanup(func() {
		_ = p.SignalGroup(syscall.SIGKILL) // the test may have ended it
		<-p.Done()
		if t.Failed() {
			t.Logf("%s: %s", c.Command[0], child.LogTail(c.Log))
		}
	})
	Await(t, func() error {
		if p.Ended() {
			t.Fatalf("%s has ended: %s", c.Command[0], child.LogTail(c.Log))
		}
		return ready()
	})
	return p
}

// Await waits until a condition returns nil, up to the end of the test's time.
func Await(t *testing.T, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline, bounded := t.Deadline()
	for ; ; <-ticker.C {
		err := condition()
		if err == nil {
			return
		}
		if bounded && time.Until(deadline) < 10*time.Second {
			t.Fatal(err)
		}
	}
}

// Belfry is a cluster of real nodes, and the command that imports into it.
type Belfry struct {
	t      *testing.T
	binary string
	addr   string
	*client.Client
}

// Start starts a cluster, whose nodes get further arguments of `belfry serve`.
func Start(t *testing.T, nodes int, args ...string) *Belfry {
	t.Helper()
	b := &Belfry{t: t, binary: os.Getenv("BELFRY_BINARY")}
	cluster, err := local.Start(t.Context(), local.Config{
		Nodes: nodes, DataDir: t.TempDir(), Binary: b.binary, StartTimeout: time.Hour, ExtraArgs: args,
	})
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	b.addr = strings.Join(cluster.URLs(), ",")
	b.Client, err = client.New(client.Config{Addrs: cluster.URLs()})
	assert.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// Brokers writes a file for --brokers, and returns the arguments of a node that name it.
func Brokers(t *testing.T, lines string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "brokers")
	assert.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
	return []string{"--brokers", path}
}

// Command returns the command belfry import with these arguments.
func (b *Belfry) Command(args ...string) *exec.Cmd {
	args = append(append([]string{"import"}, args...), "--addr", b.addr, "--json")
	return exec.CommandContext(b.t.Context(), b.binary, args...)
}

// Import runs belfry import, and returns its totals and its exit status. Servers have the password "secret", which must
// not be shown.
func (b *Belfry) Import(args ...string) (totals string, code int) {
	b.t.Helper()
	cmd := b.Command(args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	if strings.Contains(said.String(), "secret") {
		b.t.Errorf("the password is shown: %s", said.String())
	}
	b.t.Logf("belfry import %s: %s%s", strings.Join(args, " "), out, said.String())
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// Sums returns the totals of an import as the command prints them.
func Sums(read, scheduled, existing, conflicts, left, refused, same int) string {
	return fmt.Sprintf(`{"read":%d,"scheduled":%d,"existing":%d,"conflicts":%d,"left":%d,"refused":%d,"verified":`+
		`{"same":%d,"finished":0,"missing":0,"different":0}}`, read, scheduled, existing, conflicts, left, refused, same)
}
