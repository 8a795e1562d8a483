package stand

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

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
