// Command passes runs three nodes with one shard in its process, and hands out the counters of Go's coverage tool: its
// test counts the functions that a call passes. The test builds the command with these counters.
//
// It prints the base URL of each node. Then it reads folders, one a line, writes the counters since the last one into
// each, and prints "written".
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/coverage"

	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/node"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "passes:", err)
		os.Exit(1)
	}
}

// run runs nodes with their data in a folder until the end of the standard input.
func run(ctx context.Context, dir string) error {
	var nodes []*node.Node
	for i := range 3 {
		cfg := node.DefaultConfig()
		cfg.Name = fmt.Sprint("n", i)
		cfg.DataDir, cfg.HTTPAddr, cfg.PeerAddr = filepath.Join(dir, cfg.Name), "127.0.0.1:0", "127.0.0.1:0"
		cfg.BootstrapExpect, cfg.Shards, cfg.MinFreeDisk = 3, 1, headroom.NoReserve()
		cfg.WebhookNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		if i > 0 {
			cfg.Join = []string{nodes[0].PeerAddr()}
		}
		n, err := node.Start(ctx, cfg)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
		fmt.Println("http://" + n.HTTPAddr())
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		to := lines.Text()
		err := errors.Join(coverage.WriteMetaDir(to), coverage.WriteCountersDir(to), coverage.ClearCounters())
		if err != nil {
			return err
		}
		fmt.Println("written")
	}
	return nil
}
