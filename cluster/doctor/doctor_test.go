package doctor

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy returns the snapshot that node a of three makes of a healthy cluster. Node x is named node-x. Each node has a
// replica of the control group and of shards 1 to 4, whose leaders are the preferred ones.
func healthy() *Snapshot {
	s := &Snapshot{
		Self: "a", InCluster: true, DataDir: "/var/lib/belfry", MaxClockOffset: 250 * time.Millisecond, CommandVersion: 2,
	}
	for i, id := range []string{"a", "b", "c"} {
		s.Nodes = append(s.Nodes, Node{
			ID: id, Name: "node-" + id, URL: "http://10.0.0." + id + ":8400", Peer: "10.0.0." + id + ":8500",
			DataDir: "/srv/belfry " + id,
			Zone:    fmt.Sprint("zone-", i+1), Answers: true,
			Hears: []string{"a", "b", "c"}, Build: "v1.0.0", CommandVersion: 2, ClockKnown: true,
			DiskFree: 50 << 30, DiskTotal: 100 << 30, DiskReserve: 1 << 30,
			MemoryUsed: 1 << 30, MemoryLimit: 4 << 30, KeysEnd: 90 * 24 * time.Hour,
		})
	}
	for shard := range uint32(5) {
		leader := s.Nodes[shard%3].ID
		g := Group{Shard: shard, Leader: leader, Preferred: leader}
		for _, n := range s.Nodes {
			g.Replicas = append(g.Replicas, Replica{Node: n.ID, Voter: true, Present: true, Applied: 1000})
		}
		s.Groups = append(s.Groups, g)
	}
	s.Groups[0].Preferred = ""
	s.Queues = []Queue{{
		Name: "mails", Ready: 5, Overdue: time.Second, Retrying: 20, Delivered: 900, KeepDone: 10 * time.Minute,
	}}
	return s
}

// lose makes nodes silent for five minutes, with the leaders elected anew.
func (s *Snapshot) lose(ids ...string) {
	for _, id := range ids {
		n := s.find(id)
		*n = Node{ID: id, Name: n.Name, URL: n.URL, Zone: n.Zone, CommandVersion: 2, Silent: 5 * time.Minute}
		for i := range s.Groups {
			s.Groups[i].replica(id).Present = false
			if s.Groups[i].Leader == id {
				s.Groups[i].Leader = "a"
			}
		}
	}
	for i := range s.Nodes {
		s.Nodes[i].Hears = slices.DeleteFunc(s.Nodes[i].Hears, func(id string) bool { return slices.Contains(ids, id) })
	}
}

func (g *Group) replica(node string) *Replica {
	i := slices.IndexFunc(g.Replicas, func(r Replica) bool { return r.Node == node })
	return &g.Replicas[i]
}

// away is the finding about a node after lose.
func away(name string) string {
	return "warning node-away: Node " + name + " has not answered for 5m. Shards that keep a majority go on without " +
		"it. No " +
		"node takes its replicas while the control group has no leader. Start it as it was started before: it catches up " +
		"by itself. [belfry cluster status]"
}

const (
	status  = " [belfry cluster status]"
	slotsDo = " [belfry shards list | belfry operation list]"
)

// situations has at least one snapshot for each code, with all findings in it.
var situations = map[string]struct {
	change func(s *Snapshot)
	want   []string
}{
	"healthy": {func(*Snapshot) {}, nil},

	"one node of three away": {func(s *Snapshot) { s.lose("b") }, []string{
		"warning quorum-at-risk: The control group and shards 1, 2, 3 and 4 stop at the next failure: node-b is " +
			"away, and 2 of 3 voters are the least that decide. [belfry cluster status]",
		away("node-b"),
	}},
	"two nodes of three away": {func(s *Snapshot) {
		s.lose("b", "c")
		for i := range s.Groups {
			s.Groups[i].Leader = ""
		}
	}, []string{
		"critical quorum-lost: The control group and shards 1, 2, 3 and 4 have lost the majority: of 3 voters only " +
			"node-a answers. Their tasks are safe, and their calls are refused and nothing fires, until 1 more of " +
			"node-b and node-c is back. Start them as they were started before. If their disks are gone, stop all " +
			"nodes and recover the cluster from the data folders of the rest, each with a --data of its own. [belfry " +
			"recover --lost-quorum --data /var/lib/belfry --to /var/lib/belfry-recovered]",
		away("node-b"),
		away("node-c"),
	}},
	"one shard without a majority": {func(s *Snapshot) {
		s.Groups[3].replica("b").Present, s.Groups[3].replica("c").Present = false, false
	}, []string{
		"critical quorum-lost: Shard 3 has lost the majority: of 3 voters only node-a answers. Its tasks are safe, " +
			"and its calls are refused and nothing fires, until 1 more of node-b and node-c is back. Start them as " +
			"they were started before. If their disks are gone, stop all nodes and recover the cluster from the data " +
			"folders of the rest, each with a --data of its own. [belfry recover --lost-quorum --data /var/lib/belfry " +
			"--to /var/lib/belfry-recovered]",
		"warning replica-missing: Node-b answers and has not opened its replica of shard 3: it is starting, or its " +
			"log says why it cannot. [belfry doctor --addr http://10.0.0.b:8400 | belfry verify '/srv/belfry b']",
		"warning replica-missing: Node-c answers and has not opened its replica of shard 3: it is starting, or its " +
			"log says why it cannot. [belfry doctor --addr http://10.0.0.c:8400 | belfry verify '/srv/belfry c']",
	}},
	"control group without a majority": {func(s *Snapshot) {
		s.Groups[0].replica("b").Present, s.Groups[0].replica("c").Present = false, false
		s.Nodes[1].Waits, s.Nodes[2].Waits = "it opens its data folder", "it opens its data folder"
	}, []string{
		"critical quorum-lost: The control group has lost the majority: of 3 voters only node-a answers. Shards " +
			"with a majority go on, and no queue, node or placement can be changed, until 1 more of node-b and node-c " +
			"is back. Start them as they were started before. If their disks are gone, stop all nodes and recover the " +
			"cluster from the data folders of the rest, each with a --data of its own. [belfry recover --lost-quorum " +
			"--data /var/lib/belfry --to /var/lib/belfry-recovered]",
		"warning node-waits: Node node-b runs and takes no part: it opens its data folder. [belfry doctor --addr " +
			"http://10.0.0.b:8400 | belfry verify '/srv/belfry b']",
		"warning node-waits: Node node-c runs and takes no part: it opens its data folder. [belfry doctor --addr " +
			"http://10.0.0.c:8400 | belfry verify '/srv/belfry c']",
	}},
	"two voters": {func(s *Snapshot) {
		s.Groups = s.Groups[:3]
		s.Groups[2].Replicas = s.Groups[2].Replicas[:2]
		s.Groups[2].Leader, s.Groups[2].Preferred = "a", "a"
	}, []string{"warning quorum-at-risk: Shard 2 stops at the next failure: it has only 2 voters, and 2 of 2 voters " +
		"are the " +
		"least that decide." + status}},
	"a replica that does not vote yet": {func(s *Snapshot) {
		s.Groups[2].Replicas = append(s.Groups[2].Replicas, Replica{Node: "d"})
	}, nil},
	"no leader": {func(s *Snapshot) { s.Groups[1].Leader, s.Groups[2].Leader = "", "" }, []string{
		"critical no-leader: Shards 1 and 2 have no leader, though 3 of 3 voters answer. An election takes about a " +
			"second. If this " +
			"lasts, the voters do not reach each other, or their clocks are apart." + status,
	}},
	"one zone has a majority, of three": {func(s *Snapshot) {
		s.Groups[4].Replicas[2].Node = "d"
		s.Nodes = append(s.Nodes, s.Nodes[0])
		s.Nodes[3].ID, s.Nodes[3].Name = "d", "node-d"
	}, []string{"warning zone-majority: Zone zone-1 has the majority of shard 4: if the zone fails, that stops. Other " +
		"zones have " +
		"nodes that could hold a replica." + status}},
	"one zone has a majority, of two": {func(s *Snapshot) { s.Nodes[1].Zone = "zone-1" }, []string{
		"note zone-majority: Zone zone-1 has the majority of the control group and shards 1, 2, 3 and 4: if the " +
			"zone fails, they stop. Two zones cannot avoid it; three can. Start a node in a third one, with its name " +
			"as --zone. [belfry cluster status]",
	}},
	"no zones": {func(s *Snapshot) {
		for i := range s.Nodes {
			s.Nodes[i].Zone = ""
		}
	}, nil},
	"one zone for all": {func(s *Snapshot) {
		for i := range s.Nodes {
			s.Nodes[i].Zone = "only"
		}
	}, nil},
	"a cluster of one": {alone, []string{
		"note one-replica: Shards 1, 2, 3 and 4 have one replica, on node-a: nothing fires while that node is " +
			"down, and its disk has the only copy. Two more nodes make three replicas: run the command on two other " +
			"machines. [belfry serve --join 10.0.0.a:8500]",
	}},
	"one replica on several nodes": {func(s *Snapshot) { s.Groups[1].Replicas = s.Groups[1].Replicas[1:2] }, []string{
		"warning one-replica: Shard 1 has one replica, on node-b: nothing fires while that node is down, and its " +
			"disk has the only copy. Two more nodes make three replicas: run the command on two other machines. " +
			"[belfry serve --join 10.0.0.b:8500]",
	}},

	"this node is refused": {func(s *Snapshot) {
		*s = Snapshot{Self: "a", InCluster: true, DataDir: "/srv/it's",
			Waits: "this node does not take part: its folder is an old copy"}
	}, []string{
		"critical node-waits: The node asked serves no calls: this node does not take part: its folder is an old " +
			"copy. Ask another node too. [belfry verify '/srv/it'\\''s']",
	}},
	"in no cluster": {func(s *Snapshot) { *s = Snapshot{Self: "a"} }, []string{
		"critical node-waits: The node asked is in no cluster yet: it looks for the nodes of belfry serve --join, " +
			"and for as many as --bootstrap-expect says. []",
	}},
	"another node is refused": {func(s *Snapshot) {
		s.lose("b")
		s.Nodes[1].Refused = "its data folder was refused"
	}, []string{
		"warning quorum-at-risk: The control group and shards 1, 2, 3 and 4 stop at the next failure: node-b is " +
			"away, and 2 of 3 voters are the least that decide. [belfry cluster status]",
		"warning node-waits: Node node-b runs and takes no part: its data folder was refused. [belfry doctor " +
			"--addr http://10.0.0.b:8400]",
	}},
	"a node that is not ready": {func(s *Snapshot) { s.Nodes[1].NotReady = "its clock has not been compared" }, []string{
		"warning node-waits: Node node-b is not ready yet: its clock has not been compared. " +
			"[belfry doctor --addr http://10.0.0.b:8400]",
	}},
	"a node that is not ready, and the reason": {func(s *Snapshot) {
		s.Nodes[1].NotReady = "its clock has not been compared"
		s.Groups[1].Leader = ""
	}, []string{
		"critical no-leader: Shard 1 has no leader, though 3 of 3 voters answer. An election takes about a second. If " +
			"this lasts, " +
			"the voters do not reach each other, or their clocks are apart." + status,
	}},
	"a node that will be replaced": {func(s *Snapshot) {
		spare(s)
		s.lose("d")
		s.ReplaceAfter, s.Nodes[3].Missed = 10*time.Minute, 4*time.Minute
	}, []string{
		"warning node-away: Node node-d has not answered for 5m. In 6m its replicas move to other nodes, if there " +
			"are enough. Start it as it was started before: it catches up by itself. [belfry cluster status]",
	}},
	"a node that is being replaced, unheard of": {func(s *Snapshot) {
		spare(s)
		s.lose("d")
		s.Nodes[3].Silent, s.Nodes[3].Unheard = 26*time.Hour, true
		s.Nodes[3].Missed, s.ReplaceAfter = 11*time.Minute, 10*time.Minute
	}, []string{
		"warning node-away: Node node-d has not answered since node-a started 26h ago. Its replicas move to other " +
			"nodes, as far as there are enough. Start it as it was started before: it catches up by itself. [belfry " +
			"cluster status | belfry node replace node-d]",
	}},
	"a node that is gone, of two with its name": {func(s *Snapshot) {
		spare(s)
		s.lose("d")
		s.ReplaceAfter, s.Nodes[3].Missed, s.Nodes[3].Name = 10*time.Minute, 5*time.Minute, "Node-C"
	}, []string{
		"warning node-away: Node Node-C has not answered for 5m. In 5m its replicas move to other nodes, if there " +
			"are enough. Start it as it was started before: it catches up by itself. [belfry cluster status | belfry " +
			"node replace d]",
	}},
	"a node that is to be removed": {func(s *Snapshot) {
		spare(s)
		s.lose("d")
		s.ReplaceAfter, s.Nodes[3].Missed, s.Nodes[3].Leaves = 10*time.Minute, time.Hour, true
	}, []string{
		"warning node-away: Node node-d has not answered for 5m. Its replicas move to other nodes, as far as there " +
			"are enough. Start it as it was started before: it catches up by itself. [belfry cluster status]",
	}},
	"a node without replicas": {func(s *Snapshot) {
		spare(s)
		s.lose("d")
		for i := range s.Groups {
			s.Groups[i].Replicas = s.Groups[i].Replicas[:3]
		}
		s.Nodes[3].Missed = time.Hour
	}, []string{
		"warning node-away: Node node-d has not answered for 5m. It holds no replica. [belfry cluster status | " +
			"belfry node remove node-d]",
	}},
	"a broken connection": {func(s *Snapshot) {
		spare(s)
		s.Nodes[3].Answers = false
	}, []string{
		"warning node-cut-off: Node-a and node-d do not reach each other, and node-b and node-c reach node-d: a connection " +
			"between machines is broken, or a firewall is in the way. [belfry doctor --addr http://10.0.0.d:8400]",
	}},

	"a clock ahead": {func(s *Snapshot) { s.Nodes[1].Clock = 900 * time.Millisecond }, []string{
		"warning clock-apart: The clock of node-b is 900ms ahead of the others', and 250ms are allowed. The node leads no " +
			"shard " +
			"that another can lead, until its clock is right. Belfry sets no clock." + status,
	}},
	"this node's clock " +
		"behind": {func(s *Snapshot) { s.Nodes[1].Clock, s.Nodes[2].Clock = time.Second, time.Second }, []string{
		"warning clock-apart: The clock of node-a is 1s behind the others', and 250ms are allowed. The node leads no " +
			"shard that " +
			"another can lead, until its clock is right. Belfry sets no clock." + status,
	}},
	"three times": {func(s *Snapshot) { s.Nodes[1].Clock, s.Nodes[2].Clock = -time.Second, time.Minute }, []string{
		"critical clocks-disagree: No majority of the nodes keeps one time: their clocks are up to 1m apart, and 250ms are " +
			"allowed. Shards whose leaders find no majority of one time fire nothing. Belfry sets no clock." + status,
	}},
	"clocks within the bound": {func(s *Snapshot) { s.Nodes[1].Clock = 250 * time.Millisecond }, nil},

	"a full disk": {func(s *Snapshot) { s.Nodes[1].DiskFree, s.Nodes[1].DiskLow = 900<<20, true }, []string{
		"warning disk-full: The disk of node-b is nearly full: 900MiB of 100GiB are free, and the reserve is 1GiB. The " +
			"node leads " +
			"no shard that another can lead. Schedules are taken as before. [belfry queue list]",
	}},
	"two full disks": {func(s *Snapshot) {
		s.Nodes[1].DiskFree, s.Nodes[1].DiskLow = 900<<20, true
		s.Nodes[2].DiskFree, s.Nodes[2].DiskLow = 0, true
	}, []string{
		"critical disk-full: The disk of node-b is nearly full: 900MiB of 100GiB are free, and the reserve is 1GiB. " +
			"Shards 1, 2, 3 " +
			"and 4 have no majority of nodes with room, so schedules there are refused with 507; deliveries and cancels go " +
			"on. " +
			"[belfry queue list]",
		"critical disk-full: The disk of node-c is nearly full: 0B of 100GiB are free, and the reserve is 1GiB. Shards 1, " +
			"2, 3 " +
			"and 4 have no majority of nodes with room, so schedules there are refused with 507; deliveries and cancels go " +
			"on. " +
			"[belfry queue list]",
	}},
	"a disk that fills": {func(s *Snapshot) { s.Nodes[0].DiskFree = 3 << 29 }, []string{
		"warning disk-filling: The disk of node-a has 1.5GiB of 100GiB free. Below its reserve of 1GiB the node gives its " +
			"leaderships away, and without a majority of nodes with room a shard refuses schedules. [belfry queue list]",
	}},
	"a full memory": {func(s *Snapshot) { s.Nodes[2].MemoryFull, s.Nodes[2].MemoryUsed = "4GiB", 3<<30 }, []string{
		"critical memory-full: The memory for tasks of node-c is used up (limit: 4GiB). Shards 1, 2, 3 and 4 refuse new " +
			"schedules " +
			"with 429 until some tasks are done; deliveries and cancels go on. [belfry queue list | belfry plan]",
	}},
	"a memory that fills": {func(s *Snapshot) { s.Nodes[2].MemoryUsed = 5 << 29 }, []string{
		"warning memory-filling: Tasks and the rest take 2.5GiB of the memory limit of node-c, 4GiB. From three quarters " +
			"on, its " +
			"shards refuse new schedules. [belfry queue list | belfry plan]",
	}},
	"a full crowd": {func(s *Snapshot) { s.Nodes[2].Attempts, s.Nodes[2].Strangers = 5000, 4096 }, []string{
		"warning attempts-full: 5000 attempts are under way on node-c, most at receivers that do not answer. From 4096 on, " +
			"tasks for receivers that have not answered well lately wait; tasks for the others begin as before. Shorter " +
			"timeouts free the places sooner. [belfry queue list]",
	}},
	"a certificate that ends": {func(s *Snapshot) { s.Nodes[0].KeysEnd = 20 * 24 * time.Hour }, []string{
		"warning certificate-ends: The certificate of node-a, or of its CA, ends in 20 days. Without a valid one, other " +
			"nodes " +
			"accept no new connection of the node. [belfry certs show | belfry certs rotate]",
	}},
	"a certificate for callers that ends": {func(s *Snapshot) { s.Nodes[1].HTTPKeysEnd = 2 * 24 * time.Hour }, []string{
		"critical certificate-ends: The certificate that node-b shows to callers ends in 2 days. Without a valid one, " +
			"callers " +
			"open no new connection to the node. It is in the file of --http-cert, which the node reads again without a " +
			"restart. [belfry certs show | belfry certs rotate]",
	}},
	"a certificate that has ended": {func(s *Snapshot) { s.Nodes[1].KeysEnd = -2 * time.Hour }, []string{
		"critical certificate-ends: The certificate of node-b, or of its CA, has ended 2h ago. Without a valid one, other " +
			"nodes " +
			"accept no new connection of the node. [belfry certs show | belfry certs rotate]",
	}},

	"a diverged replica": {func(s *Snapshot) { s.Groups[2].replica("b").Diverged = true }, []string{
		"critical replica-diverged: The replica of shard 2 on node-b differs from another at the same log index. If a " +
			"majority " +
			"outvotes it, it does not lead, and a copy of the others' replaces it by itself. " +
			"[belfry cluster status]",
	}},
	"a replica behind": {func(s *Snapshot) {
		for i := range s.Groups[1].Replicas {
			s.Groups[1].Replicas[i].Applied = 20_000
		}
		s.Groups[1].replica("c").Applied = 9_999
	}, []string{"warning replica-behind: The replica of shard 1 on node-c lacks 10001 log entries and catches up. It " +
		"does not " +
		"lead meanwhile." + status}},
	"a stuck move": {func(s *Snapshot) {
		s.Moves = []Move{
			{Shard: 2, From: []string{"a", "b", "c"}, To: []string{"a", "b"}, Blocked: "node-c is away", For: 3 * time.Minute},
			{Shard: 3, From: []string{"a", "b", "c"}, To: []string{"a", "b"}, Blocked: "node-c is away", For: 3 * time.Second},
			{Shard: 4, From: []string{"a", "b", "c"}, To: []string{"a", "b"}, For: time.Hour},
		}
	}, []string{"warning move-stuck: The move of shard 2 from node-a, node-b and node-c to node-a and node-b has " +
		"waited for 3m: " +
		"node-c is away. It goes on by itself when that has changed; the shard serves meanwhile." + status}},
	"moves of slots": {func(s *Snapshot) {
		s.SlotMoves = []SlotMove{
			{From: 1, To: 5, Slots: 170, CallsWait: true, Still: 12 * time.Second, Reason: "shard 5 has no leader"},
			{From: 2, To: 6, Slots: 10, GivenUp: 3, Reason: "a leader of the move has changed"},
			{From: 3, To: 7, Slots: 9, Still: 2 * time.Minute, GivenUp: 1},
			{From: 4, To: 8, Slots: 9, CallsWait: true, Still: time.Second, GivenUp: 2},
		}
	}, []string{
		"critical slots-stuck: The move of 170 slots from shard 1 to shard 5 has not gone on for 12s: shard 5 has no " +
			"leader. " +
			"Calls on these slots wait, and their tasks do not fire until it goes on." + slotsDo,
		"warning slots-stuck: The move of 10 slots from shard 2 to shard 6 was given up 3 times, and begins anew each " +
			"time: a " +
			"leader of the move has changed. Both shards serve meanwhile." + slotsDo,
		"warning slots-stuck: The move of 9 slots from shard 3 to shard 7 has not gone on for 2m: the reason is not known. " +
			"Both shards serve meanwhile." + slotsDo,
	}},
	"leaders astray": {func(s *Snapshot) {
		for i := range s.Groups {
			s.Groups[i].Leader = "a"
		}
	}, []string{"warning leaders-unbalanced: 3 of 4 shards are led by another node than the one that should: shards 1, " +
		"2 and 4. " +
		"Belfry gives leaderships back within a minute after a node has returned." + status}},
	"one leader astray": {func(s *Snapshot) { s.Groups[1].Leader = "a" }, nil},
	"two builds": {func(s *Snapshot) { s.Nodes[1].Build = "v1.1.0" }, []string{
		"note versions-mixed: The nodes run different builds: v1.0.0 on node-a and node-c; v1.1.0 on node-b. Finish the " +
			"upgrade " +
			"node by node." + status,
	}},
	"a format that is held back": {func(s *Snapshot) {
		s.Nodes[0].CommandVersion, s.Nodes[1].CommandVersion = 3, 3
	}, []string{
		"warning versions-mixed: The cluster writes format 2, and newer nodes know 3: node-c runs an older build, or has " +
			"not been " +
			"started since the upgrade. The format rises by itself after that; until then the upgrade can be undone." + status,
	}},
	"a failed backup": {func(s *Snapshot) {
		s.Backup = Backup{Failed: "node-b: no space left on device", Since: 30 * time.Hour}
	}, []string{
		"warning backup-failing: The newest backup failed: node-b: no space left on device. The newest whole one " +
			"is 30h old. [belfry backup --to belfry.backup]",
	}},
	"a failed first backup": {func(s *Snapshot) { s.Backup = Backup{Failed: "the caller left"} }, []string{
		"warning backup-failing: The newest backup failed: the caller left. No whole one is known. [belfry backup " +
			"--to belfry.backup]",
	}},

	"an issuer that is away": {func(s *Snapshot) {
		s.Nodes[1].IssuerFault, s.Nodes[1].IssuerKeys = "connection refused", 40*time.Minute
		s.Nodes[2].IssuerFault = "404 Not Found"
	}, []string{
		"critical issuer-away: Node node-c does not get the keys of the issuer of tokens: 404 Not Found. It has no " +
			"keys of the issuer, so it answers tokens with 503. API keys and certificates work. []",
		"warning issuer-away: Node node-b does not get the keys of the issuer of tokens: connection refused. The " +
			"issuer's keys that it has are 40m old: it answers tokens of newer keys with 503, and takes those of " +
			"withdrawn ones. []",
	}},
	"an audit log on a full disk": {func(s *Snapshot) { s.Nodes[1].AuditFault = "no space left on device" }, []string{
		"warning audit-failing: The audit log of node node-b is not written: no space left on device. Changes " +
			"through the node are refused once its memory for their records is full. [df -h]",
	}},
	"a node without the cluster key": {func(s *Snapshot) {
		s.Secrets = Secrets{Key: "k2", Sealed: map[string]int{"k1": 1, "k2": 2}}
		s.Nodes[0].ClusterKeys, s.Nodes[1].ClusterKeys = []string{"k2", "k1"}, []string{"k2", "k1"}
		s.Nodes[2].ClusterKeys = []string{"k2"}
	}, []string{
		"critical cluster-key-missing: Node-c lacks cluster key k1, under which the secrets of 1 queue are sealed: " +
			"tasks of these queues are not sent by shards that it leads. Give the nodes the --cluster-key-file of the " +
			"others. []",
	}},
	"a cluster key that is not needed": {func(s *Snapshot) {
		s.Secrets = Secrets{Key: "k2", Sealed: map[string]int{"k2": 2}}
		for i := range s.Nodes {
			s.Nodes[i].ClusterKeys = []string{"k2", "k1"}
		}
	}, []string{
		"note cluster-key-idle: No secret is sealed under cluster key k1 any more. Its line can be removed from " +
			"the key files of node-a, node-b and node-c. Keep a copy for as long as you keep backups of that time, or " +
			"put the line first to seal under it. [belfry doctor]",
	}},
	"secrets in the clear": {func(s *Snapshot) { s.Secrets.Plain = 2 }, []string{
		"note secrets-plain: The secrets of 2 queues are stored in the clear in logs, snapshots and backups: no " +
			"node has a cluster key. Start each node with --cluster-key-file and a copy of one file. [(umask 077; " +
			"openssl rand -base64 32 > cluster.key)]",
	}},

	"keys without callers": {func(s *Snapshot) {
		const day = 24 * time.Hour
		s.APIKeys = []APIKey{
			{"k1", 91 * day}, {"k2", 90*day - time.Second}, {"k3", 400 * day}, {"k4", 90 * day},
		}
	}, []string{
		"note keys-unused: 3 keys have not been used for 90 days or more; key k3 for the longest time: 400 days. " +
			"Revoke a key that has no caller any more. [belfry key list | belfry key revoke k3]",
	}},

	"broken receivers": {func(s *Snapshot) {
		q := &s.Queues[0]
		q.Delivered, q.Overdue = 0, 2*time.Minute
		for i := range 4 {
			q.Broken = append(q.Broken, Broken{fmt.Sprintf("http://shop%d:80/x", i), time.Minute, "503", uint64(i)})
		}
		q.Broken[0].Name = "https://shop.example/hook"
	}, []string{
		"warning receiver-broken: Queue mails: https://shop.example/hook has failed for 1m (503), and 0 tasks wait for it; " +
			"http://shop1:80/x has failed for 1m (503), and 1 task waits for it; http://shop2:80/x has failed for 1m (503), " +
			"and 2 tasks wait for it; and 1 more receiver fails. A receiver that fails gets one attempt at a time, which " +
			"does not use up a task's attempts, until one succeeds. " +
			"[belfry queue get mails | belfry task list --state retrying,ready --queue mails]",
	}},

	"receivers that all fail": {func(s *Snapshot) { s.Queues[0].Delivered = 0 }, []string{
		"warning queue-failing: Queue mails has delivered nothing in the last 10m: its receiver fails. 25 tasks wait for " +
			"a success. Attempts are repeated with growing pauses, and " +
			"tasks whose attempts are used up become dead letters. " +
			"[belfry task list --state retrying,ready --queue mails | belfry queue pause mails]",
	}},
	"tombstones that are not " +
		"kept": {func(s *Snapshot) { s.Queues[0].Delivered, s.Queues[0].KeepDone = 0, time.Second }, nil},
	"a slow receiver": {func(s *Snapshot) { s.Queues[0].Overdue = 90 * time.Second }, []string{
		"warning queue-behind: 5 tasks of queue mails are due and wait, the oldest for 2m: the receiver is slower than the " +
			"schedule. [belfry queue get mails]",
	}},
	"a receiver that fails behind an open breaker": {func(s *Snapshot) {
		q := &s.Queues[0]
		q.Overdue, q.Delivered, q.Retrying, q.Ready, q.Failure = 2*time.Minute, 0, 4, 996, "500 Internal Server Error: down"
	}, []string{
		"warning queue-failing: Queue mails has delivered nothing in the last 10m: its receiver fails (500 Internal " +
			"Server Error: down). 1000 tasks wait for a success. Attempts are repeated with growing pauses, and " +
			"tasks whose attempts are used up become dead letters. " +
			"[belfry task list --state retrying,ready --queue mails | belfry queue pause mails]",
	}},
	"a receiver that fails now and then": {func(s *Snapshot) {
		s.Queues[0].Overdue, s.Queues[0].Failure = 2*time.Minute, "500 Internal Server Error"
	}, []string{
		"warning queue-behind: 5 tasks of queue mails are due and wait, the oldest for 2m: some attempts fail (500 " +
			"Internal Server Error). [belfry queue get mails]",
	}},
	"groups with limits": {func(s *Snapshot) { s.Queues[0].Overdue, s.Queues[0].Grouped = time.Hour, true }, []string{
		"warning queue-behind: 5 tasks of queue mails are due and wait, the oldest for 1h: the receiver, or the " +
			"limit of a group, is slower than the schedule. [belfry queue get mails]",
	}},
	"slow consumers": {func(s *Snapshot) {
		s.Queues[0].Overdue, s.Queues[0].Pulled, s.Queues[0].Leased = time.Hour, true, 3
	}, []string{
		"warning queue-behind: 5 tasks of queue mails are due and wait, the oldest for 1h: consumers are slower " +
			"than the schedule. [belfry queue get mails]",
	}},
	"one task without a consumer": {func(s *Snapshot) {
		q := &s.Queues[0]
		q.Overdue, q.Pulled, q.Ready, q.Retrying, q.Delivered = time.Hour, true, 1, 1, 0
	}, []string{
		"warning queue-no-consumer: 1 task of queue mails is due and waits, the oldest for 1h: no consumer has a " +
			"lease. Start one, or name a receiver for the queue. [belfry queue get mails]",
	}},
	"no consumer": {func(s *Snapshot) { s.Queues[0].Overdue, s.Queues[0].Pulled = time.Hour, true }, []string{
		"warning queue-no-consumer: 5 tasks of queue mails are due and wait, the oldest for 1h: no consumer has a " +
			"lease. Start one, or name a receiver for the queue. [belfry queue get mails]",
	}},
	"a limit": {func(s *Snapshot) {
		s.Queues[0].Overdue, s.Queues[0].Limited, s.Queues[0].Limit = time.Hour, true, "4 in flight"
	}, []string{
		"warning queue-at-limit: 5 tasks of queue mails are due and wait, the oldest for 1h: the queue is at its " +
			"limit (4 in flight). [belfry queue get mails]",
	}},
	"a pause in a namespace": {func(s *Snapshot) {
		s.Queues[0].Paused, s.Queues[0].Delivered, s.Queues[0].Namespace = true, 0, "billing"
	}, []string{
		"note queue-paused: Queue mails of namespace billing is paused, and 5 tasks are due and wait in it. " +
			"[belfry queue resume mails --namespace billing]",
	}},
	"a pause": {func(s *Snapshot) { s.Queues[0].Paused, s.Queues[0].Delivered = true, 0 }, []string{
		"note queue-paused: Queue mails is paused, and 5 tasks are due and wait in it. [belfry queue resume mails]",
	}},
	"dead letters": {func(s *Snapshot) { s.Queues[0].Dead = 1000 }, []string{
		"warning dead-letters: Queue mails has 1000 dead letters. They are kept until they are replayed or dropped. " +
			"[belfry dead list mails | belfry dead replay mails]",
	}},
	"more dead than delivered": {func(s *Snapshot) { s.Queues[0].Dead, s.Queues[0].Delivered = 100, 99 }, []string{
		"warning dead-letters: Queue mails has 100 dead letters. They are kept until they are replayed or dropped. " +
			"[belfry dead list mails | belfry dead replay mails]",
	}},
	"a receiver that refuses all": {func(s *Snapshot) {
		q := &s.Queues[0]
		q.Ready, q.Delivered, q.Retrying, q.Failure = 0, 0, 3, "404 Not Found"
	}, []string{
		"warning queue-failing: Queue mails has delivered nothing in the last 10m: its receiver fails (404 Not " +
			"Found). 3 tasks wait for a success. Attempts are repeated with growing pauses, and tasks whose attempts are " +
			"used up become dead letters. " +
			"[belfry task list --state retrying,ready --queue mails | belfry queue pause mails]",
	}},
	"a receiver that has refused all": {func(s *Snapshot) {
		q := &s.Queues[0]
		q.Ready, q.Delivered, q.Retrying, q.Dead, q.Death = 0, 0, 0, 12, "404 Not Found"
	}, []string{
		"warning dead-letters: Queue mails has 12 dead letters (404 Not Found). They are kept until they are replayed " +
			"or dropped. [belfry dead list mails | belfry dead replay mails]",
	}},
	"some dead": {func(s *Snapshot) { s.Queues[0].Dead = 100 }, nil},
}

// alone leaves node a of the cluster.
func alone(s *Snapshot) {
	s.Nodes = s.Nodes[:1]
	for i := range s.Groups {
		s.Groups[i].Replicas = s.Groups[i].Replicas[:1]
		s.Groups[i].Leader, s.Groups[i].Preferred = "a", "a"
	}
}

// spare adds node d, which holds no replica.
func spare(s *Snapshot) {
	d := s.Nodes[2]
	d.ID, d.Name, d.URL = "d", "node-d", "http://10.0.0.d:8400"
	s.Nodes = append(s.Nodes, d)
	for i := range s.Groups {
		s.Groups[i].Replicas = append(s.Groups[i].Replicas, Replica{Node: "d", Present: true, Applied: 1000})
	}
	for i := range s.Nodes {
		s.Nodes[i].Hears = []string{"a", "b", "c", "d"}
	}
}

func TestFindings(t *testing.T) {
	for name, c := range situations {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			c.change(s)
			var got []string
			for _, f := range Examine(s) {
				got = append(got, fmt.Sprintf("%s %s: %s [%s]", f.Severity, f.Code, f.Summary, strings.Join(f.Do, " | ")))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestCommands checks testdata/commands.txt: all commands of the situations. A test of the command line runs them.
func TestCommands(t *testing.T) {
	var all []string
	for _, c := range situations {
		s := healthy()
		c.change(s)
		for _, f := range Examine(s) {
			all = append(all, f.Do...)
		}
	}
	slices.Sort(all)
	found := strings.Join(slices.Compact(all), "\n") + "\n"
	const file = "testdata/commands.txt"
	if kept, err := os.ReadFile(file); err != nil || string(kept) != found {
		t.Errorf("%s should be\n%s%v", file, found, err)
	}
}

// TestGravestFirst checks the order of findings of all severities.
func TestGravestFirst(t *testing.T) {
	s := healthy()
	for _, name := range []string{"a pause", "a clock ahead", "a diverged replica", "a full memory"} {
		situations[name].change(s)
	}
	var codes []Code
	for _, f := range Examine(s) {
		codes = append(codes, f.Code)
	}
	if want := []Code{MemoryFull, ReplicaDiverged, ClockApart, QueuePaused}; !slices.Equal(codes, want) {
		t.Errorf("%v, want %v", codes, want)
	}
}

// TestExamineChangesNothing checks that Examine leaves its input alone.
func TestExamineChangesNothing(t *testing.T) {
	for name, c := range situations {
		s, again := healthy(), healthy()
		c.change(s)
		c.change(again)
		Examine(s)
		if !reflect.DeepEqual(s, again) {
			t.Errorf("%s: changed", name)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500 * time.Microsecond: "2ms", 61 * time.Second: "1m", 59*time.Minute + 50*time.Second: "1h0m", time.Minute: "1m",
		90 * time.Minute: "2h", 47 * time.Hour: "47h", 73 * time.Hour: "3 days", 10 * time.Minute: "10m", time.Hour: "1h",
	} {
		if got := span(d); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}
