package stand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

// makeCertificates has the program make the nodes' certificates and keys, without which nodes open their peer port on
// loopback only. It replaces those of an earlier run in the folder.
func makeCertificates(ctx context.Context, binary, dir string, places []local.Place) error {
	nodes := names(len(places))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	args := append([]string{"certs", "init", "--dir", dir}, nodes...)
	if out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("making the nodes' certificates: %w\n%s", err, out)
	}
	for i, node := range nodes {
		file := func(name string) string { return filepath.Join(dir, "nodes", node, name) }
		places[i].Args = append(slices.Clip(places[i].Args), "--peer-cert", file("node.pem"), "--peer-key", file("node.key"),
			"--peer-ca", file("ca.pem"), "--gossip-key-file", file("gossip.key"))
	}
	return nil
}

// withoutRootKey leaves a node without the root key of the others.
func withoutRootKey(p *local.Place) { p.Args = append(p.Args, "--root-key-file=") }

// putKeysInForce makes an admin key through the API and writes it in place of the root key. All nodes take this key,
// those without a root key, too: nodes with one read the file at each start.
func putKeysInForce(ctx context.Context, cluster *local.Cluster) error {
	c, err := client.New(client.Config{Addrs: cluster.URLs()[:1], KeyFile: cluster.KeyFile(), FixedAddrs: true})
	if err != nil {
		return err
	}
	made, err := c.CreateKey(ctx, client.KeyRequest{
		Name: "admin of the stand", Grants: []client.Grant{{Role: client.RoleAdmin, Namespace: client.AllNamespaces}},
	})
	if err != nil {
		return fmt.Errorf("making the stand's admin key: %w", err)
	}
	fresh := cluster.KeyFile() + ".new"
	return errors.Join(os.WriteFile(fresh, []byte(made.Key.Text()+"\n"), 0o600), os.Rename(fresh, cluster.KeyFile()))
}
