package addressbook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

const (
	fileName = "addresses.json"
	version  = 1
)

// content is the content of the book's file.
type content struct {
	Version int    `json:"version"`
	Nodes   []Node `json:"nodes"` // sorted by id
}

func read(path string) ([]Node, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.Version != version {
		return nil, fmt.Errorf("version %d; this build reads %d", c.Version, version)
	}
	return c.Nodes, nil
}

func (b *Book) save() error {
	data, err := json.MarshalIndent(content{Version: version, Nodes: b.Nodes()}, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(b.path, append(data, '\n'), nil)
}

// retryAfter is how long the writer waits after a failed write.
const retryAfter = 5 * time.Second

// Run writes the book after each change until the context ends, and then the last changes. It logs the first of several
// failures in a row.
func (b *Book) Run(ctx context.Context) {
	for failing := false; ; {
		select {
		case <-b.wake:
		case <-ctx.Done():
			b.finish()
			return
		}
		err := b.save()
		if err == nil {
			failing = false
			continue
		}
		if !failing {
			b.logger.Warn("the address book cannot be written; the node goes on and tries again", "file", b.path, "err", err)
		}
		failing = true
		b.changed()
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
}

// finish saves the changes that are not on disk yet.
func (b *Book) finish() {
	select {
	case <-b.wake:
		if err := b.save(); err != nil {
			b.logger.Warn("the address book's last changes are not on disk", "file", b.path, "err", err)
		}
	default:
	}
}
