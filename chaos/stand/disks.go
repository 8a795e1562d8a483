package stand

import (
	"errors"
	"path/filepath"

	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/deploy/local"
)

// openDisks mounts a disk for each node, and moves the nodes' data to the disks. The content of the disks stays for a
// later stand in the same folder.
func openDisks(cfg Config, places []local.Place) (map[string]*lossyfs.Disk, error) {
	disks := map[string]*lossyfs.Disk{}
	for i, name := range names(len(places)) {
		dir := filepath.Join(cfg.Dir, "disks", name)
		d, err := lossyfs.Mount(filepath.Join(dir, "mount"), filepath.Join(dir, "backing"), cfg.Seed+uint64(i))
		if err != nil {
			for _, mounted := range disks {
				err = errors.Join(err, mounted.Close())
			}
			return nil, err
		}
		disks[name] = d
		places[i].Data = filepath.Join(d.Mountpoint(), "data")
	}
	return disks, nil
}
