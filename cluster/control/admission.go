package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// ErrNotAdmitted is the error of a registration that needs a valid token and has none. The text of such an error is for
// the operator of the new node.
var ErrNotAdmitted = errors.New("the node is not let into the cluster")

// admissionError is an ErrNotAdmitted with its reason.
type admissionError struct{ reason string }

func (e *admissionError) Error() string { return e.reason + "; " + remedy }

// Is reports whether target is ErrNotAdmitted.
func (e *admissionError) Is(target error) bool { return target == ErrNotAdmitted }

func notAdmitted(format string, args ...any) error {
	return &admissionError{fmt.Sprintf(format, args...)}
}

// remedy ends the text of every ErrNotAdmitted.
const remedy = "`belfry node token create` makes a token for one new node, which shows it with `belfry serve " +
	"--join-token-file FILE`"

// Admit adds the node to the state or updates its record, and waits until the entry is committed. A new node shows a
// one-time token; see Config.Tokens. Only the leader can register nodes: on other nodes the error is a
// *task.NotLeaderError. The error is an ErrNotAdmitted if the token is missing or not valid.
func (g *Group) Admit(ctx context.Context, node *clusterpb.Node, token string) error {
	if known := Node(g.State(), node.Id); known != nil && proto.Equal(known, node) && g.group.Leads() {
		return nil
	}
	register := &clusterpb.Register{Node: node, Admission: g.admission(node.Id, token)}
	_, err := g.propose(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Register{Register: register}})
	return err
}

// admission returns the terms under which a node may register, or nil if any node may. The members of the group are
// registered nodes, and the nodes that formed the cluster.
func (g *Group) admission(node, token string) *clusterpb.Admission {
	if !g.cfg.Tokens {
		return nil
	}
	terms := &clusterpb.Admission{AtMs: g.cfg.Clock().UnixMilli()}
	if token != "" {
		terms.TokenHash = HashToken(token)
	}
	for _, m := range g.group.Members() {
		terms.Exempt = terms.Exempt || m.NodeID == node
	}
	return terms
}

// applyAdmission decides whether the node may register, and uses up its token. A registered node whose name has changed
// needs a token as a new node does: its certificate proves the name, and nothing proves the id.
func applyAdmission(s *clusterpb.ControlState, node *clusterpb.Node, terms *clusterpb.Admission) error {
	known := Node(s, node.Id)
	switch {
	case terms == nil, known == nil && terms.Exempt, known != nil && strings.EqualFold(known.Name, node.Name):
		return nil
	}
	at := findToken(s, terms.TokenHash)
	if err := checkToken(s, at, node, terms); err != nil {
		return err
	}
	used := proto.CloneOf(s.JoinTokens[at])
	used.UsedBy, used.UsedName, used.UsedMs = node.Id, node.Name, terms.AtMs
	s.JoinTokens = slices.Clone(s.JoinTokens)
	s.JoinTokens[at] = used
	return nil
}

// checkToken returns an error unless the token at this place, -1 for none, lets the node in.
func checkToken(s *clusterpb.ControlState, at int, node *clusterpb.Node, terms *clusterpb.Admission) error {
	known := Node(s, node.Id)
	switch {
	case len(terms.TokenHash) == 0 && known != nil:
		return notAdmitted("node %s (%s) was registered as %s, and a node with another name needs a token",
			node.Name, node.Id, known.Name)
	case len(terms.TokenHash) == 0:
		return notAdmitted("node %s (%s) is new, and a new node needs a token", node.Name, node.Id)
	case at < 0:
		return notAdmitted("the token of node %s (%s) is unknown: it was removed, or is of another cluster",
			node.Name, node.Id)
	}
	switch token := s.JoinTokens[at]; {
	case token.UsedBy != "":
		return notAdmitted("node %s (%s) shows token %s, which was used by node %s (%s) at %s",
			node.Name, node.Id, token.Id, token.UsedName, token.UsedBy, instant(token.UsedMs))
	case terms.AtMs >= token.ExpiresMs:
		return notAdmitted("node %s (%s) shows token %s, which expired at %s", node.Name, node.Id, token.Id,
			instant(token.ExpiresMs))
	}
	return nil
}

// applyAddToken adds a token unless it is there already.
func applyAddToken(s *clusterpb.ControlState, add *clusterpb.AddJoinToken) error {
	token := add.GetToken()
	if token.GetId() == "" || len(token.Hash) == 0 {
		return errors.New("a token has an id and a hash")
	}
	if findToken(s, token.Hash) >= 0 {
		return nil
	}
	expired := func(t *clusterpb.JoinToken) bool { return t.ExpiresMs <= token.CreatedMs }
	kept := slices.DeleteFunc(slices.Clone(s.JoinTokens), expired)
	if len(kept) >= MaxTokens {
		return ErrTooManyTokens
	}
	at, found := slices.BinarySearchFunc(kept, token.Id, byTokenID)
	if found {
		return fmt.Errorf("another token has the id %s", token.Id)
	}
	s.JoinTokens = slices.Insert(kept, at, token)
	return nil
}

func applyRemoveToken(s *clusterpb.ControlState, remove *clusterpb.RemoveJoinToken) error {
	same := func(t *clusterpb.JoinToken) bool { return t.Id == remove.GetId() }
	s.JoinTokens = slices.DeleteFunc(slices.Clone(s.JoinTokens), same)
	return nil
}

func byTokenID(t *clusterpb.JoinToken, id string) int { return strings.Compare(t.Id, id) }
