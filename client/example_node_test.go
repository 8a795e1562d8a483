package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/node"
)

// exampleNode is the node that the examples call, a cluster of its own. The first example starts it.
var exampleNode struct {
	once sync.Once
	node *node.Node
	dir  string
}

// nodeURL returns the base URL of the examples' node, which is ready.
func nodeURL() string {
	exampleNode.once.Do(func() {
		if err := startExampleNode(); err != nil {
			panic(err)
		}
	})
	return "http://" + exampleNode.node.HTTPAddr()
}

func startExampleNode() error {
	dir, err := os.MkdirTemp("", "belfry-example-")
	if err != nil {
		return err
	}
	cfg := node.DefaultConfig()
	cfg.DataDir, cfg.HTTPAddr, cfg.PeerAddr = filepath.Join(dir, "data"), "127.0.0.1:0", "127.0.0.1:0"
	cfg.Shards = 2
	n, err := node.Start(context.Background(), cfg)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	exampleNode.node, exampleNode.dir = n, dir
	c, err := client.New(client.Config{Addrs: []string{"http://" + n.HTTPAddr()}})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.Ready(ctx)
}

func stopExampleNode() error {
	if exampleNode.node == nil {
		return nil
	}
	return errors.Join(exampleNode.node.Close(), os.RemoveAll(exampleNode.dir))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopExampleNode(); err != nil {
		fmt.Fprintln(os.Stderr, "the examples' node:", err)
		code = 1
	}
	os.Exit(code)
}
