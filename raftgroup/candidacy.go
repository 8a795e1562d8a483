package raftgroup

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/wait"
)

const (
	// turns is the number of parts of the heartbeat timeout. Voters without a preferred one stand for the first election
	// one part after the other, since two candidates may split the votes.
	turns = 4
	// askAgain is the pause before a voter that does not answer is asked again. After a refusal the pause doubles.
	askAgain = 20 * time.Millisecond
)

// stand makes this replica a candidate as soon as its turn has come and a majority would vote for it, and so ends its
// first wait for a leader early. Raft by itself waits for one to two heartbeat timeouts after a start, and again after
// a candidacy that came before the other replicas were open.
func (g *Group) stand(through raft.Transport) {
	voters := g.Voters()
	slices.Sort(voters)
	turn := max(slices.Index(voters, g.cfg.NodeID), 0)
	if g.cfg.Preferred == g.cfg.NodeID {
		turn = 0
	}
	if !wait.For(g.ctx, g.tuning.headStart()+time.Duration(turn)*g.cfg.Timing.Heartbeat/turns) {
		return
	}
	if preVote, ok := through.(raft.WithPreVote); ok && slices.Contains(voters, g.cfg.NodeID) {
		g.canvass(preVote, voters)
	}
	g.retune(func(t *tuning) { t.starting = false })
}

// canvass returns when a majority of the voters would vote for this replica, when a leader is known, or after two
// heartbeat timeouts. A pre-vote changes nothing at the voter, and Raft asks for its own before the election.
func (g *Group) canvass(through raft.WithPreVote, voters []string) {
	ctx, cancel := context.WithTimeout(g.ctx, 2*g.cfg.Timing.Heartbeat)
	defer cancel()
	granted, led := make(chan struct{}, len(voters)), make(chan struct{}, len(voters))
	for _, voter := range voters {
		if voter != g.cfg.NodeID {
			g.workers.Go(func() { g.askForVote(ctx, through, voter, granted, led) })
		}
	}
	for range len(voters) / 2 {
		select {
		case <-granted:
		case <-led:
			return
		case <-ctx.Done():
			return
		}
	}
}

// askForVote asks a voter for a pre-vote until it grants one or a leader is known.
func (g *Group) askForVote(
	ctx context.Context, through raft.WithPreVote, voter string, granted, led chan<- struct{},
) {
	for pause := askAgain; ctx.Err() == nil; {
		if leader, _ := g.Leader(); leader != "" {
			led <- struct{}{}
			return
		}
		var answer raft.RequestPreVoteResponse
		err := through.RequestPreVote(raft.ServerID(voter), raft.ServerAddress(voter), g.preVote(), &answer)
		if err == nil && answer.Granted {
			granted <- struct{}{}
			return
		}
		if err == nil {
			pause *= 2
		}
		if !wait.For(ctx, pause) {
			return
		}
	}
}

// preVote returns the request for a pre-vote that Raft would send.
func (g *Group) preVote() *raft.RequestPreVoteRequest {
	request := &raft.RequestPreVoteRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(g.cfg.NodeID), Addr: []byte(g.cfg.NodeID),
		},
		Term: g.Term() + 1, LastLogIndex: g.stat("last_log_index"), LastLogTerm: g.stat("last_log_term"),
	}
	if at := g.stat("last_snapshot_index"); at > request.LastLogIndex {
		request.LastLogIndex, request.LastLogTerm = at, g.stat("last_snapshot_term")
	}
	return request
}

// stat returns a number of Raft's Stats. Those of the log and the snapshots have no method of their own.
func (g *Group) stat(name string) uint64 {
	n, err := strconv.ParseUint(g.raft.Stats()[name], 10, 64)
	if err != nil {
		g.cfg.Logger.Error("raft tells no number", "name", name, "err", err)
	}
	return n
}
