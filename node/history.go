package node

import (
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/history"
)

// The defaults of Config.HistoryBytes and Config.HistoryDays.
const (
	DefaultHistoryBytes = 256 << 20
	DefaultHistoryDays  = 7
)

// historyShare is the number of namespaces that may keep as much history as one may: all together are bounded by it.
const historyShare = 8

// openHistory opens the history of the node's replicas, unless the node keeps none.
func (n *Node) openHistory() error {
	if n.history != nil || n.cfg.HistoryDays == 0 || n.cfg.HistoryBytes == 0 {
		return nil
	}
	store, err := history.Open(history.Config{
		Dir:   filepath.Join(n.cfg.DataDir, "history"),
		Bytes: n.cfg.HistoryBytes, Total: historyShare * n.cfg.HistoryBytes,
		Age: time.Duration(n.cfg.HistoryDays) * 24 * time.Hour, Clock: n.clock, Logger: n.log, Registerer: n.registry,
	})
	if err != nil {
		return err
	}
	n.history = store
	n.onStop(store.Close)
	return nil
}
