package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/pause"
	"github.com/belfryhq/belfry/fsm/task"
)

// RegistrarConfig holds this node's entry, and the ways to the control group.
type RegistrarConfig struct {
	Entry   *clusterpb.Node // the correct entry of this node, which is not changed
	Hold    uint32          // command version that the node does not want to be exceeded; 0: none
	Control *control.Replica
	Peer    func(node string) clusterpb.PeerClient // asks another node
	Removed func()                                 // called when the log says that this node was removed
	Pause   time.Duration                          // between two tries
	// TokenFile holds the token by which a new or renamed node gets into the cluster; empty: it has none.
	TokenFile string
	Logger    *slog.Logger
}

// Registrar registers nodes with the control group. Its methods are safe for concurrent use.
type Registrar struct {
	cfg     RegistrarConfig
	refused atomic.Pointer[error] // the last refusal of this node's own registration; nil: the last one was not refused
}

// NewRegistrar returns a registrar.
func NewRegistrar(cfg RegistrarConfig) *Registrar { return &Registrar{cfg: cfg} }

// Run keeps this node's entry in the control group up to date until ctx ends or the node is removed. The node must be
// in a cluster.
func (r *Registrar) Run(ctx context.Context) {
	for {
		state, changed := r.cfg.Control.Watch()
		if control.IsRemoved(state, r.cfg.Entry.Id) {
			r.cfg.Removed()
			return
		}
		if known := control.Node(state, r.cfg.Entry.Id); known != nil && proto.Equal(known, r.entry()) {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := r.registerSelf(ctx)
		if r.noteRefusal(err); err != nil {
			r.cfg.Logger.Debug("not registered yet", "err", err)
		}
		if pause.For(ctx, r.cfg.Pause) != nil { // also gives the entry time to arrive here
			return
		}
	}
}

func (r *Registrar) registerSelf(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := &clusterpb.RegisterRequest{Node: r.entry()}
	known := control.Node(r.cfg.Control.State(), req.Node.Id)
	if known != nil && !strings.EqualFold(known.Name, req.Node.Name) {
		token, err := readToken(r.cfg.TokenFile)
		if err != nil {
			return err
		}
		req.Token = token
	}
	if leader := r.cfg.Control.Leader(); leader != "" && leader != req.Node.Id {
		_, err := r.cfg.Peer(leader).Register(ctx, req) // which admits a node that was renamed, too
		return err
	}
	return r.Register(ctx, req)
}

// entry returns the correct entry of this node. A node that holds the command version registers with that version, so
// that the cluster writes nothing newer. A version that is in force already cannot be held back.
func (r *Registrar) entry() *clusterpb.Node {
	held := max(r.cfg.Hold, control.InForce(r.cfg.Control.State()))
	if r.cfg.Hold == 0 || held >= r.cfg.Entry.CommandVersion {
		return r.cfg.Entry
	}
	entry := proto.CloneOf(r.cfg.Entry)
	entry.CommandVersion = held
	return entry
}

// Register has the control group's leader register the entry of a node. It fails at once if this node is in no cluster.
func (r *Registrar) Register(ctx context.Context, req *clusterpb.RegisterRequest) error {
	if r.cfg.Control.Group() == nil {
		return fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	_, err := r.cfg.Control.Change(ctx, control.Registration(req.Node, req.Token))
	return err
}

// registerThrough registers this node with the cluster of another node, and returns the cluster's id.
func (r *Registrar) registerThrough(ctx context.Context, node string) (string, error) {
	token, err := readToken(r.cfg.TokenFile)
	if err != nil {
		r.noteRefusal(err)
		return "", err
	}
	reply, err := r.cfg.Peer(node).Register(ctx, &clusterpb.RegisterRequest{Node: r.entry(), Token: token})
	r.noteRefusal(err)
	return reply.GetClusterId(), err
}

// noteRefusal remembers whether the cluster has refused this node's own registration, and logs each new reason. Other
// errors leave the last outcome as it is.
func (r *Registrar) noteRefusal(err error) {
	reason := refusalIn(err)
	switch {
	case err == nil:
		r.refused.Store(nil)
	case reason != nil:
		last := r.refused.Swap(&reason)
		if last == nil || (*last).Error() != reason.Error() {
			r.cfg.Logger.Warn("the cluster does not let this node in", "err", reason)
		}
	}
}

// refusal returns the reason why this node is not registered, or nil.
func (r *Registrar) refusal() error {
	if reason := r.refused.Load(); reason != nil {
		return fmt.Errorf("the cluster does not let this node in: %w", *reason)
	}
	return nil
}

// refusalIn returns the reason for which a registration was refused, or nil for any other error.
func refusalIn(err error) error {
	var refused *task.ImpossibleError
	switch {
	case errors.As(err, &refused), errors.Is(err, errTokenFile):
		return err
	case status.Code(err) == codes.PermissionDenied:
		return errors.New(status.Convert(err).Message())
	}
	return nil
}
