package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
)

// exampleNode is the node that the examples call, a cluster of its own in a process of its own. The first example builds
// and starts the node. An import of package node would add its dependencies to the checksums of every program that
// imports this package.
var exampleNode struct {
	once    sync.Once
	dir     string
	process *child.Child
	url     string
}

// nodeURL returns the base URL of the examples' node, which is ready.
func nodeURL() string {
	exampleNode.once.Do(func() {
		if err := startExampleNode(); err != nil {
			panic(err)
		}
	})
	return exampleNode.url
}

func startExampleNode() (err error) {
	e := &exampleNode
	if e.dir, err = os.MkdirTemp("", "belfry-example-"); err != nil {
		return err
	}
	binary := filepath.Join(e.dir, "belfry")
	// Go keeps a linked program for `go run` alone, where cp stands in for the run. So all tests together link it once.
	if out, err := exec.Command("go", "run", "-exec", "cp", "../cmd/belfry", binary).CombinedOutput(); err != nil {
		return fmt.Errorf("building belfry: %w: %s", err, out)
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	e.url = "http://" + addr
	e.process, err = child.Start(child.Config{
		Command: []string{binary, "serve", "--data", filepath.Join(e.dir, "data"), "--http", addr, "--peer", "127.0.0.1:0",
			"--shards", "2"},
		Log: filepath.Join(e.dir, "log"),
	})
	if err != nil {
		return err
	}
	return awaitReady(e.url)
}

// freeAddr returns an address of loopback on which nothing listens.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func awaitReady(url string) error {
	c, err := client.New(client.Config{Addrs: []string{url}})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return c.Ready(ctx)
}

// stopExampleNode stops the node if an example has started it, and removes its folder.
func stopExampleNode() error {
	e := &exampleNode
	if e.process == nil {
		return os.RemoveAll(e.dir)
	}
	err := e.process.Signal(syscall.SIGTERM)
	<-e.process.Done()
	return errors.Join(err, e.process.Err(), os.RemoveAll(e.dir))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopExampleNode(); err != nil {
		fmt.Fprintln(os.Stderr, "the examples' node:", err)
		code = 1
	}
	os.Exit(code)
}
