package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/jwtkeys"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
)

const (
	maxJWTKeys = 16
	jwtAge     = 90 * 24 * time.Hour // age at which the leader makes newer keys
	jwtOverlap = time.Hour           // for which it leaves the older ones
)

// applySetJwtKeys sets the keys that sign tokens. An entry that was made beside an older key than the newest one is
// late.
func applySetJwtKeys(s *clusterpb.ControlState, set *clusterpb.SetJwtKeys) error {
	inClear := func(k *clusterpb.JwtKey) bool { return k.Sealed == nil }
	switch {
	case set.Newest != newestJWTKey(s):
		return errConflict
	case len(set.Keys) > maxJWTKeys:
		return fmt.Errorf("%d keys of tokens, of which there are %d at most", len(set.Keys), maxJWTKeys)
	case s.ClusterKey != "" && slices.ContainsFunc(set.Keys, inClear):
		return errors.New("the secrets of this cluster are sealed")
	}
	s.JwtKeys = set.Keys
	return nil
}

// newestJWTKey returns the id of the key that was made last, or "" for none.
func newestJWTKey(s *clusterpb.ControlState) string {
	if n := len(s.JwtKeys); n > 0 {
		return s.JwtKeys[n-1].Id
	}
	return ""
}

// answerSetJwtKeys describes the keys without their private parts.
func answerSetJwtKeys(c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, _ *clusterpb.SetJwtKeys) {
	for _, k := range after.JwtKeys {
		c.JwtKeys = append(c.JwtKeys, jwtkeys.Published(k))
	}
}

// prepareSetJwtKeys makes the newer keys for which a node asks.
func prepareSetJwtKeys(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	cfg, overlap := r.group.cfg, time.Duration(c.Entry.GetSetJwtKeys().GetOverlapMs())*time.Millisecond
	if overlap != 0 && (overlap < jwtkeys.LeastOverlap || overlap > jwtkeys.MostOverlap) {
		return nil, &task.FieldError{Field: "overlap", Detail: "is out of range", Limit: "0s, or 15m to 30d"}
	}
	d := jwtDraft{r.group.State(), cfg.Secrets.Ring(), cfg.Clock()}
	if why := d.barred(); why != "" {
		return nil, fmt.Errorf("%w: %s", task.ErrNotProposed, why)
	}
	if overlap > 0 && len(d.state.JwtKeys)+len(cfg.Algorithms) > maxJWTKeys {
		return nil, &task.ImpossibleError{Reason: fmt.Sprintf("there are %d keys of tokens, and at most %d: wait until the "+
			"older ones end, or end them with the overlap 0s", len(d.state.JwtKeys), maxJWTKeys)}
	}
	set, err := d.newer(cfg.Algorithms, overlap)
	c.Entry.Op = &clusterpb.ControlEntry_SetJwtKeys{SetJwtKeys: set}
	return nil, err
}

// jwtDraft makes the next keys of tokens. The entry that sets them is committed only if no newer key came between.
type jwtDraft struct {
	state *clusterpb.ControlState
	ring  *seal.Ring // of the leader
	now   time.Time  // on the clock of the leader
}

// barred returns why this node can make no keys, or "" if it can.
func (d jwtDraft) barred() string {
	if d.state.ClusterKey != "" && d.ring == nil {
		return "secrets of this cluster are sealed, and the node that leads the control group has no --cluster-key-file"
	}
	return ""
}

// newer returns the keys with a newer one for each algorithm. The present ones stay for the overlap.
func (d jwtDraft) newer(algorithms []string, overlap time.Duration) (*clusterpb.SetJwtKeys, error) {
	set := &clusterpb.SetJwtKeys{Newest: newestJWTKey(d.state)}
	ends := d.now.Add(overlap).UnixMilli()
	for _, k := range d.state.JwtKeys {
		if overlap == 0 {
			break
		}
		if slices.Contains(algorithms, k.Algorithm) && (k.EndsMs == 0 || k.EndsMs > ends) {
			next := jwtkeys.Published(k)
			next.Private, next.Sealed, next.EndsMs = k.Private, k.Sealed, ends
			k = next
		}
		set.Keys = append(set.Keys, k)
	}
	for _, algorithm := range algorithms {
		k, err := jwtkeys.New(algorithm)
		if err != nil {
			return nil, err
		}
		if k.MadeMs = d.now.UnixMilli(); overlap > 0 && d.has(algorithm) {
			k.SignsMs = d.now.Add(overlap / 2).UnixMilli()
		}
		set.Keys = append(set.Keys, k)
	}
	return set, d.seal(set)
}

// seal seals the keys that are not sealed as the leader does. A key that it cannot open stays as it is.
func (d jwtDraft) seal(set *clusterpb.SetJwtKeys) error {
	for i, k := range set.Keys {
		sealed, err := jwtkeys.Seal(d.ring, k)
		var missing *seal.MissingKeyError
		switch {
		case err == nil:
			set.Keys[i] = sealed
		case !errors.As(err, &missing): // the doctor names a missing key
			return err
		}
	}
	return nil
}

func (d jwtDraft) has(algorithm string) bool {
	return slices.ContainsFunc(d.state.JwtKeys, func(k *clusterpb.JwtKey) bool { return k.Algorithm == algorithm })
}

// jwtKeys makes the first keys of tokens, makes newer ones with time, takes ended ones away, and seals those that are
// not sealed as they should be.
func (l look) jwtKeys() (step, error) {
	d := jwtDraft{l.state, l.keys.Ring(), l.clock}
	if d.barred() != "" {
		return step{}, nil
	}
	isOld := func(k *clusterpb.JwtKey) bool { return !l.clock.Before(time.UnixMilli(k.MadeMs).Add(jwtAge)) }
	var missing, old []string
	for _, algorithm := range l.algorithms {
		switch at := lastOf(l.state.JwtKeys, algorithm); {
		case at == nil:
			missing = append(missing, algorithm)
		case isOld(at):
			old = append(old, algorithm)
		}
	}
	for _, algorithms := range [][]string{missing, old} {
		if len(algorithms) > 0 {
			set, err := d.newer(algorithms, jwtOverlap)
			return stepOf("make keys of tokens for "+strings.Join(algorithms, " and "), set), err
		}
	}
	return l.tidyJWTKeys(d)
}

// tidyJWTKeys takes ended keys away, and seals the others as the leader does.
func (l look) tidyJWTKeys(d jwtDraft) (step, error) {
	set := &clusterpb.SetJwtKeys{Newest: newestJWTKey(l.state)}
	for _, k := range l.state.JwtKeys {
		if k.EndsMs == 0 || k.EndsMs > l.clock.UnixMilli() {
			set.Keys = append(set.Keys, k)
		}
	}
	if err := d.seal(set); err != nil || slices.Equal(set.Keys, l.state.JwtKeys) {
		return step{}, err
	}
	return stepOf("end keys of tokens, or seal them anew", set), nil
}

func lastOf(keys []*clusterpb.JwtKey, algorithm string) *clusterpb.JwtKey {
	for _, k := range slices.Backward(keys) {
		if k.Algorithm == algorithm {
			return k
		}
	}
	return nil
}

func stepOf(what string, set *clusterpb.SetJwtKeys) step {
	return step{what: what, entry: &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetJwtKeys{SetJwtKeys: set}}}
}
