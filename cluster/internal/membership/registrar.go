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
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
)

// KeepEntry keeps this node's entry in the control group up to date until ctx ends or the node is removed. The node
// must be in a cluster.
func (m *Member) KeepEntry(ctx context.Context) {
	for {
		state, changed := m.cfg.Control.Watch()
		if control.IsRemoved(state, m.cfg.Entry.Id) {
			m.Removed()
			return
		}
		if known := control.Node(state, m.cfg.Entry.Id); known != nil && proto.Equal(known, m.entry()) {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := m.registerSelf(ctx)
		if m.noteRefusal(err); err != nil {
			m.cfg.Logger.Debug("not registered yet", "err", err)
		}
		if !wait.For(ctx, m.cfg.Pause) { // also gives the entry time to arrive here
			return
		}
	}
}

func (m *Member) registerSelf(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := &clusterpb.RegisterRequest{Node: m.entry()}
	known := control.Node(m.cfg.Control.State(), req.Node.Id)
	if known != nil && !strings.EqualFold(known.Name, req.Node.Name) {
		token, err := readToken(m.cfg.TokenFile)
		if err != nil {
			return err
		}
		req.Token = token
	}
	if leader := m.cfg.Control.Leader(); leader != "" && leader != req.Node.Id {
		_, err := m.cfg.Peers.Peer(leader).Register(ctx, req) // which admits a node that was renamed, too
		return err
	}
	return m.Register(ctx, req)
}

// entry returns the correct entry of this node. A node that holds the command version registers with that version, so
// that the cluster writes nothing newer. A version that is in force already cannot be held back.
func (m *Member) entry() *clusterpb.Node {
	held := max(m.cfg.Hold, control.InForce(m.cfg.Control.State()))
	if m.cfg.Hold == 0 || held >= m.cfg.Entry.CommandVersion {
		return m.cfg.Entry
	}
	entry := proto.CloneOf(m.cfg.Entry)
	entry.CommandVersion = held
	return entry
}

// Register has the control group's leader register the entry of a node. It fails at once if this node is in no cluster.
func (m *Member) Register(ctx context.Context, req *clusterpb.RegisterRequest) error {
	if m.cfg.Control.Group() == nil {
		return fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	_, err := m.cfg.Control.Change(ctx, control.Registration(req.Node, req.Token))
	return err
}

// registerThrough registers this node with the cluster of another node, and returns the cluster's id.
func (m *Member) registerThrough(ctx context.Context, node string) (string, error) {
	token, err := readToken(m.cfg.TokenFile)
	if err != nil {
		m.noteRefusal(err)
		return "", err
	}
	reply, err := m.cfg.Peers.Peer(node).Register(ctx, &clusterpb.RegisterRequest{Node: m.entry(), Token: token})
	m.noteRefusal(err)
	return reply.GetClusterId(), err
}

// noteRefusal remembers whether the cluster has refused this node's own registration, and logs each new reason. Other
// errors leave the last outcome as it is.
func (m *Member) noteRefusal(err error) {
	reason := refusalIn(err)
	switch {
	case err == nil:
		m.refused.Store(nil)
	case reason != nil:
		last := m.refused.Swap(&reason)
		if last == nil || (*last).Error() != reason.Error() {
			m.cfg.Logger.Warn("the cluster does not let this node in", "err", reason)
		}
	}
}

// Refused returns the reason why the cluster does not let this node in, or nil.
func (m *Member) Refused() error {
	if reason := m.refused.Load(); reason != nil {
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

// RefusalStatus returns the gRPC status for the error of a registration.
func RefusalStatus(err error) error {
	var refused *task.ImpossibleError
	if errors.As(err, &refused) {
		return status.Error(codes.PermissionDenied, refused.Reason)
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
