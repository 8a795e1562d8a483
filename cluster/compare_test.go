package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

func TestReplicaApartIsTold(t *testing.T) {
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	c := newComparer(&Node{cfg: Config{Logger: slog.New(slog.NewTextHandler(&out, nil)), Registerer: registry}})
	own := map[uint64]uint64{64: 7, 128: 8}
	theirs := func(hash uint64) []*clusterpb.Checkpoint {
		return []*clusterpb.Checkpoint{{Index: 64, Hash: 7}, {Index: 128, Hash: hash}, {Index: 192, Hash: 99}}
	}
	c.compareReplica(replicaKey{3, "b"}, own, theirs(8))
	if out.Len() != 0 || testutil.ToFloat64(c.compared) != 2 || testutil.CollectAndCount(c.apart) != 0 {
		t.Fatalf("equal replicas: %s", &out)
	}
	for range 3 {
		c.compareReplica(replicaKey{3, "c"}, own, theirs(9))
	}
	if got := strings.Count(out.String(), "differs"); got != 1 || !strings.Contains(out.String(), "shard=3 node=c index=128") {
		t.Errorf("told %d times: %s", got, &out)
	}
	if got := testutil.ToFloat64(c.apart.WithLabelValues("3", "c")); got != 1 {
		t.Errorf("the metric says %v", got)
	}
}
