package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/contexts"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// playsBelfry is the environment variable that makes this test program play belfry. All processes that tests start have
// it, so that the tests of real processes need no build.
const playsBelfry = "CMD_TEST_PLAYS_BELFRY"

// TestMain keeps the contexts of the user out of the tests, and stops the shared node after them.
func TestMain(m *testing.M) {
	if os.Getenv(playsBelfry) != "" {
		main()
	}
	time.Local = time.UTC // TestLocalTimes has another zone
	none := filepath.Join(os.TempDir(), "belfry-no-such-contexts.yaml")
	if err := errors.Join(os.Setenv(contexts.PathVariable, none), os.Setenv(playsBelfry, "1")); err != nil {
		panic(err)
	}
	status := m.Run()
	if err := stopShared(); err != nil {
		fmt.Println("the shared node:", err)
		status = 1
	}
	os.Exit(status)
}

// program returns the path of this program, which plays belfry as a process.
func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	assert.NoError(t, err)
	return path
}

// shared starts the node of all tests that only need an API to talk to. Each test has names or a namespace of its own
// there, since the node has the tasks of all of them.
var shared = sync.OnceValues(func() (addr string, err error) {
	dir, err := os.MkdirTemp("", "belfry-test-")
	if err != nil {
		return "", err
	}
	addr, stop, err := begin(context.Background(), "--data", filepath.Join(dir, "data"), "--shards", "2", "--name", "n1",
		"--allow-webhook-cidr", "127.0.0.0/8", "--allow-host", "belfry.example", "--allow-origin", "https://app.example")
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	stopShared = func() error { return errors.Join(stop(), os.RemoveAll(dir)) }
	return addr, nil
})

// stopShared stops the shared node, if there is one.
var stopShared = func() error { return nil }

// onNode returns the address of the shared node, and a client of it.
func onNode(t *testing.T) (addr string, c *client.Client) {
	t.Helper()
	addr, err := shared()
	assert.NoError(t, err)
	return addr, dial(t, addr)
}

// localCluster runs a local cluster, whose nodes are processes of this program, until the test ends.
func localCluster(t *testing.T, cfg local.Config) *local.Cluster {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.Binary, cfg.StartTimeout = program(t), time.Hour // as long as the tests have
	cluster, err := local.Start(t.Context(), cfg)
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	return cluster
}

// names counts the names that unique has made.
var names atomic.Int64

// unique returns a name that no other test has.
func unique(prefix string) string { return fmt.Sprint(prefix, "-", names.Add(1)) }

// inNamespace makes a namespace of the shared node, and returns the node's address, a client of the namespace and its
// name. The commands of the test are about this namespace, too.
func inNamespace(t *testing.T) (addr string, c *client.Client, name string) {
	t.Helper()
	addr, operator := onNode(t)
	name = unique("test")
	_, err := operator.PutNamespace(t.Context(), name, client.Quotas{})
	assert.NoError(t, err)
	t.Setenv("BELFRY_NAMESPACE", name)
	return addr, dialNamespace(t, addr, name), name
}

// dialNamespace returns a client of a namespace.
func dialNamespace(t *testing.T, addr, name string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addrs: []string{addr}, Namespace: name})
	assert.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
