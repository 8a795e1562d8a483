package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/node"
)

// A test or a program runs a node, a cluster of its own, in its process.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "belfry-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	cfg := node.DefaultConfig()
	cfg.DataDir, cfg.HTTPAddr, cfg.PeerAddr = filepath.Join(dir, "data"), "127.0.0.1:0", "127.0.0.1:0"
	n, err := node.Start(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	c, err := client.New(client.Config{Addrs: []string{"http://" + n.HTTPAddr()}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fmt.Println("ready:", c.Ready(ctx) == nil)
	c.Close()
	fmt.Println("closed:", n.Close() == nil)
	// Output:
	// ready: true
	// closed: true
}
