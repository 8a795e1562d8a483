package membership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
)

// tokenPatience bounds a change of a token whose context has no deadline.
const tokenPatience = 10 * time.Second

// TokensConfig holds this node's replica of the control group, and the way to other nodes.
type TokensConfig struct {
	Self    string // node id
	Control *control.Replica
	Peer    func(node string) clusterpb.PeerClient
}

// Tokens makes and removes the tokens of new nodes, on any node. Its methods are safe for concurrent use.
type Tokens struct{ cfg TokensConfig }

// NewTokens returns the tokens of the cluster.
func NewTokens(cfg TokensConfig) *Tokens { return &Tokens{cfg} }

// Add makes a token, which one new node may use within its life. Only the caller gets the token: no other node and no
// disk does. Errors are control.ErrTooManyTokens, task.ErrNotProposed and task.ErrUnknown.
func (t *Tokens) Add(ctx context.Context, life time.Duration) (token string, made *clusterpb.JoinToken, err error) {
	token = control.NewToken()
	changed, err := t.change(ctx, &clusterpb.TokenChange{Op: &clusterpb.TokenChange_Add{
		Add: &clusterpb.NewToken{Hash: control.HashToken(token), ValidMs: life.Milliseconds()},
	}})
	if err != nil {
		return "", nil, err
	}
	return token, changed.GetToken(), nil
}

// Remove removes a token, and reports whether there was one; errors are those of Add.
func (t *Tokens) Remove(ctx context.Context, id string) (existed bool, err error) {
	changed, err := t.change(ctx, &clusterpb.TokenChange{Op: &clusterpb.TokenChange_Remove{Remove: id}})
	return changed.GetToken() != nil, err
}

// List returns the tokens that this node knows, used and expired ones included. The caller must not change them.
func (t *Tokens) List() []*clusterpb.JoinToken { return t.cfg.Control.State().JoinTokens }

// change carries out a change through the control group's leader. It may ask several nodes, since a repeated change has
// no further effect.
func (t *Tokens) change(ctx context.Context, change *clusterpb.TokenChange) (*clusterpb.TokenChanged, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tokenPatience)
		defer cancel()
	}
	for search := t.cfg.Control.Search(); ; {
		changed, err := t.changeAt(ctx, search.Next(), change)
		if err == nil || isFinal(err) {
			return changed, err
		}
		if err := search.Again(ctx, err); err != nil {
			return nil, err
		}
	}
}

func (t *Tokens) changeAt(
	ctx context.Context, node string, change *clusterpb.TokenChange,
) (*clusterpb.TokenChanged, error) {
	if node == t.cfg.Self {
		return t.ChangeHere(ctx, change)
	}
	changed, err := t.cfg.Peer(node).ChangeTokens(ctx, change)
	switch status.Code(err) {
	case codes.OK:
		return changed, nil
	case codes.ResourceExhausted:
		return nil, control.ErrTooManyTokens
	case codes.FailedPrecondition:
		return nil, fmt.Errorf("%w: %s", task.ErrNotProposed, status.Convert(err).Message())
	}
	return nil, fmt.Errorf("%w: node %s did not answer: %w", task.ErrUnknown, node, err)
}

// isFinal reports whether another try of a change would fail in the same way.
func isFinal(err error) bool {
	var behind *control.BehindError
	return errors.Is(err, control.ErrTooManyTokens) || errors.Is(err, control.ErrRefused) || errors.As(err, &behind)
}

// ChangeHere carries out a change through this node's replica of the control group, which must lead it.
func (t *Tokens) ChangeHere(ctx context.Context, change *clusterpb.TokenChange) (*clusterpb.TokenChanged, error) {
	g := t.cfg.Control.Group()
	if g == nil {
		return nil, fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	var token *clusterpb.JoinToken
	var err error
	switch op := change.GetOp().(type) {
	case *clusterpb.TokenChange_Add:
		token, err = g.AddToken(ctx, op.Add.GetHash(), time.Duration(op.Add.GetValidMs())*time.Millisecond)
	case *clusterpb.TokenChange_Remove:
		token, err = g.RemoveToken(ctx, op.Remove)
	default:
		err = fmt.Errorf("%w: a change that this build does not know", task.ErrNotProposed)
	}
	if err != nil {
		return nil, err
	}
	return &clusterpb.TokenChanged{Token: token}, nil
}

// RefusalStatus returns the gRPC status for the error of a registration or of a change of tokens. A status of another
// node is passed on.
func RefusalStatus(err error) error {
	var behind *control.BehindError
	switch {
	case errors.Is(err, control.ErrTooManyTokens):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, control.ErrNotAdmitted):
		return status.Error(codes.PermissionDenied, err.Error())
	case errors.As(err, &behind):
		return status.Error(codes.FailedPrecondition, err.Error())
	case status.Code(err) == codes.PermissionDenied:
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

// errTokenFile is the error of a file that holds no token.
var errTokenFile = errors.New("--join-token-file")

// readToken returns the token in a file, which may end in white space. Without a path there is none.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errTokenFile, err)
	}
	token := strings.TrimSpace(string(data))
	if err := control.CheckToken(token); err != nil {
		return "", fmt.Errorf("%w: %s: %w", errTokenFile, path, err)
	}
	return token, nil
}
