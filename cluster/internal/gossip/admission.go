package gossip

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Bounds on the members of the mesh. Any sender that reaches the port can forge members.
const (
	maxStarts    = 4    // starts of one node
	maxStrangers = 64   // nodes not known to be of the cluster, while this node does not know the cluster's map
	maxMembers   = 1024 // members in all
)

// keptFor is how long a start counts after it was admitted or has died. memberlist forgets it some seconds after
// deadFor.
const keptFor = 2 * deadFor

// claim is one start of a node that memberlist knows, with the start's metadata.
type claim struct {
	meta     *clusterpb.GossipMeta
	stranger bool
	here     bool      // the start is among the members
	since    time.Time // time of its admission, or of its last join or leave
}

// admission decides which starts memberlist takes up, and which news of them, whether they arrive in a packet or in an
// exchange of whole states. memberlist calls it under its own lock, so it must not call memberlist. There is no merge
// delegate: admission judges each member of a foreign list.
type admission struct{ g *Gossip }

var _ memberlist.AliveDelegate = admission{}

// The reasons for refusing news of a start.
var (
	errCrowd    = errors.New("too many members, or starts of one node")
	errForeign  = errors.New("it is of another cluster")
	errStranger = errors.New("its node is not of this cluster")
	errChanged  = errors.New("it says something else than before")
	errProtocol = errors.New("it speaks another version")
)

// NotifyAlive refuses news that cannot be about a start of a node of this cluster.
func (a admission) NotifyAlive(n *memberlist.Node) error {
	if n.Name == nameOf(a.g.cfg.Self) {
		return nil // memberlist itself contradicts false news of this node
	}
	meta, err := read(n)
	if err != nil {
		return err
	}
	member, sure := a.g.cfg.Directory.IsKnown(meta.Id)
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	return a.g.admit(n.Name, meta, !member, sure)
}

// read decodes a start's metadata, and checks that it agrees with memberlist's record of the start.
func read(n *memberlist.Node) (*clusterpb.GossipMeta, error) {
	if len(n.Meta) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("it says %d bytes about itself; at most %d", len(n.Meta), memberlist.MetaMaxSize)
	}
	meta := &clusterpb.GossipMeta{}
	if err := proto.Unmarshal(n.Meta, meta); err != nil {
		return nil, fmt.Errorf("it says nothing readable about itself: %w", err)
	}
	if meta.Id == "" || n.Name != nameOf(meta) {
		return nil, fmt.Errorf("it says that it is %q", nameOf(meta))
	}
	if !isAt(meta.PeerAddr, n.Addr, n.Port) {
		return nil, fmt.Errorf("it says that it is at %q", meta.PeerAddr)
	}
	current := n.PMin <= protocol && protocol <= n.PMax && n.PCur == protocol
	if !current || n.DMin != 0 || n.DMax != 0 || n.DCur != 0 {
		return nil, errProtocol // it would keep all others from exchanging their states
	}
	return meta, nil
}

const protocol = memberlist.ProtocolVersion2Compatible

// isAt reports whether host:port may be this address. A host name matches every IP address.
func isAt(addr string, ip net.IP, port uint16) bool {
	host, service, err := net.SplitHostPort(addr)
	if err != nil || service != strconv.Itoa(int(port)) {
		return false
	}
	literal := net.ParseIP(host)
	return literal == nil || literal.Equal(ip)
}

// admit takes up a start, or returns the reason to refuse it. The caller holds the lock.
func (g *Gossip) admit(name string, meta *clusterpb.GossipMeta, stranger, sure bool) error {
	own := g.self.ClusterId
	known := g.claims[name]
	switch {
	case known != nil && known.here: // even if it now names another cluster: see Members
		return known.renew(meta)
	case own != "" && meta.ClusterId != "" && meta.ClusterId != own:
		return errForeign
	case stranger && sure:
		return errStranger
	case known != nil:
		return known.renew(meta)
	}
	g.forgetClaims()
	if !g.hasRoom(meta.Id, stranger) {
		return errCrowd
	}
	g.claims[name] = &claim{meta: meta, stranger: stranger, since: time.Now()}
	return nil
}

// renew takes over the present metadata of a start. Only two facts may change, each once: the start enters a cluster,
// and it takes part.
func (c *claim) renew(meta *clusterpb.GossipMeta) error {
	next := proto.CloneOf(c.meta)
	if next.ClusterId == "" {
		next.ClusterId = meta.ClusterId
	}
	next.TakesPart = next.TakesPart || meta.TakesPart
	if !proto.Equal(next, meta) {
		return errChanged
	}
	c.meta = meta
	return nil
}

// forgetClaims removes the starts that memberlist has forgotten. The caller holds the lock.
func (g *Gossip) forgetClaims() {
	maps.DeleteFunc(g.claims, func(_ string, c *claim) bool { return !c.here && time.Since(c.since) > keptFor })
}

// hasRoom reports whether one more start of a node may be admitted. The caller holds the lock.
func (g *Gossip) hasRoom(id string, stranger bool) bool {
	ofNode, strangers := 0, 0
	for _, c := range g.claims {
		if c.meta.Id == id {
			ofNode++
		}
		if c.stranger {
			strangers++
		}
	}
	return len(g.claims) < maxMembers && ofNode < maxStarts && (!stranger || strangers < maxStrangers)
}

// note records whether memberlist counts a start among the members. The caller holds the lock.
func (g *Gossip) note(name string, here bool) {
	if c := g.claims[name]; c != nil {
		c.here, c.since = here, time.Now()
	}
}
