package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/jwtkeys"
	"github.com/belfryhq/belfry/fsm/task"
)

// JWTKeySet returns the public keys of tokens as a JSON Web Key Set (RFC 7517), or nil if this node knows none within a
// moment.
func (n *Node) JWTKeySet(ctx context.Context) ([]byte, error) {
	jwtkeys.AwaitKey(ctx, n.control, task.EdDSA)
	keys := n.control.State().GetJwtKeys()
	if len(keys) == 0 {
		return nil, nil
	}
	return jwtkeys.KeySet(keys)
}

// RotateJWTKeys makes newer keys of tokens, and returns all of them in the order of their making. The present ones stay
// for the overlap, and end at once if it is 0. The error is a *task.FieldError for an overlap that is out of range, or
// a *task.ImpossibleError, or wraps task.ErrNotProposed or task.ErrUnknown.
func (n *Node) RotateJWTKeys(ctx context.Context, overlap time.Duration) ([]view.JWTKey, error) {
	for {
		changed, err := n.control.Change(ctx, &clusterpb.ControlChange{Entry: &clusterpb.ControlEntry{
			Op: &clusterpb.ControlEntry_SetJwtKeys{SetJwtKeys: &clusterpb.SetJwtKeys{OverlapMs: overlap.Milliseconds()}},
		}})
		switch {
		case err != nil:
			return nil, err
		case !changed.Conflict:
			return viewJWTKeys(changed.JwtKeys), nil
		} // else another change came between
	}
}

func viewJWTKeys(keys []*clusterpb.JwtKey) (list []view.JWTKey) {
	for _, k := range keys {
		v := view.JWTKey{
			ID: k.Id, Algorithm: k.Algorithm, MadeAt: time.UnixMilli(k.MadeMs).UTC(),
			SignsAt: time.UnixMilli(max(k.SignsMs, k.MadeMs)).UTC(),
		}
		if k.EndsMs != 0 {
			ends := time.UnixMilli(k.EndsMs).UTC()
			v.EndsAt = &ends
		}
		list = append(list, v)
	}
	return list
}
