package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// errNotAdmitted is the error of a registration that needs a valid token and has none. The text of such an error is for
// the operator of the new node.
var errNotAdmitted = errors.New("the node is not let into the cluster")

// admissionError is an errNotAdmitted with its reason.
type admissionError struct{ reason string }

func (e *admissionError) Error() string { return e.reason + "; " + remedy }

// Is reports whether target is errNotAdmitted.
func (e *admissionError) Is(target error) bool { return target == errNotAdmitted }

func notAdmitted(format string, args ...any) error {
	return &admissionError{fmt.Sprintf(format, args...)}
}

// remedy ends the text of every errNotAdmitted.
const remedy = "`belfry node token create` makes a token for one new node, which shows it with `belfry serve " +
	"--join-token-file FILE`"

// Registration returns the change that adds a node to the state or updates its record. A new node shows a one-time
// token; see Config.Tokens.
func Registration(node *clusterpb.Node, token string) *clusterpb.ControlChange {
	return &clusterpb.ControlChange{Token: token, Entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_Register{Register: &clusterpb.Register{Node: node}},
	}}
}

// prepareRegister adds the terms under which a node may register. A record that is up to date stays.
func prepareRegister(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	register := c.Entry.GetRegister()
	id := register.GetNode().GetId()
	if known := Node(r.group.State(), id); known != nil && proto.Equal(known, register.Node) {
		c.Entry = nil
		return &clusterpb.ControlChanged{}, nil
	}
	register.Admission = r.group.admission(id, c.Token)
	return nil, nil
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
		return errTooManyTokens
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
