package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// The limits of tokens.
const (
	MaxTokens       = 100 // that have not expired, used ones included
	MinTokenLife    = time.Minute
	MaxTokenLife    = 30 * 24 * time.Hour
	tokenPrefix     = "belfry-join-"
	tokenBytes      = 20 // random
	tokenIDBytes    = 5  // of the hash
	tokenTextLength = len(tokenPrefix) + tokenBytes*8/5
)

// errTooManyTokens refuses a token beyond MaxTokens. Its text is for the caller.
var errTooManyTokens = &task.FieldError{
	Field: "tokens", Detail: "are as many as may be that have not expired; remove one that is not needed",
	Limit: fmt.Sprint(MaxTokens),
}

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewToken makes a random token.
func NewToken() string {
	var raw [tokenBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return tokenPrefix + base32Lower.EncodeToString(raw[:])
}

// CheckToken returns an error for a text that is no token. The error does not hold the text.
func CheckToken(text string) error {
	if !strings.HasPrefix(text, tokenPrefix) || len(text) != tokenTextLength {
		return fmt.Errorf("it does not hold a token: %q and %d characters", tokenPrefix, tokenTextLength-len(tokenPrefix))
	}
	return nil
}

// HashToken returns the hash by which the state knows a token. A token is as random as a key, so a plain hash of it
// cannot be searched.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func tokenID(hash []byte) string { return base32Lower.EncodeToString(hash[:tokenIDBytes]) }

// findToken returns the place of the token with this hash, or -1. It compares the hash with those of all tokens, in
// constant time.
func findToken(s *clusterpb.ControlState, hash []byte) int {
	at := -1
	for i, t := range s.JoinTokens {
		if subtle.ConstantTimeCompare(t.Hash, hash) == 1 {
			at = i
		}
	}
	return at
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// prepareAddToken makes the token with a hash, which one new node may use within its life.
func prepareAddToken(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	add := c.Entry.GetAddJoinToken()
	hash, life := add.GetToken().GetHash(), time.Duration(add.GetValidMs())*time.Millisecond
	if len(hash) != sha256.Size || life < MinTokenLife || life > MaxTokenLife {
		return nil, &refusal{fmt.Errorf("a hash of %d bytes, and a life of %v", len(hash), life)}
	}
	now := r.group.cfg.Clock()
	add.ValidMs = 0
	add.Token = &clusterpb.JoinToken{
		Id: tokenID(hash), Hash: hash, CreatedMs: now.UnixMilli(), ExpiresMs: now.Add(life).UnixMilli(),
	}
	return nil, nil
}

func answerAddToken(c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, add *clusterpb.AddJoinToken) {
	c.Token = Token(after, add.GetToken().GetId())
}

func answerRemoveToken(
	c *clusterpb.ControlChanged, before, _ *clusterpb.ControlState, remove *clusterpb.RemoveJoinToken,
) {
	c.Token = Token(before, remove.GetId())
	c.Existed = c.Token != nil
}

// Token returns a token of the state, or nil if there is none.
func Token(s *clusterpb.ControlState, id string) *clusterpb.JoinToken {
	for _, t := range s.JoinTokens {
		if t.Id == id {
			return t
		}
	}
	return nil
}

// Tokens is the one-time tokens of new nodes, as this node knows and changes them. Its methods are safe for concurrent
// use.
type Tokens struct {
	replica  *Replica
	required bool
}

// NewTokens returns the tokens of a node. Required is set if a new node needs a token.
func NewTokens(replica *Replica, required bool) *Tokens { return &Tokens{replica, required} }

// NewJoinToken makes a one-time token, by which one new node may join the cluster within its life. Only the caller gets
// the token: no other node and no disk does. Errors are *task.FieldError, task.ErrNotProposed and task.ErrUnknown.
func (t *Tokens) NewJoinToken(ctx context.Context, life time.Duration) (view.NewJoinToken, error) {
	token := NewToken()
	add := &clusterpb.AddJoinToken{
		Token: &clusterpb.JoinToken{Hash: HashToken(token)}, ValidMs: life.Milliseconds(),
	}
	changed, err := t.replica.Change(ctx, &clusterpb.ControlChange{Entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_AddJoinToken{AddJoinToken: add},
	}})
	if err != nil {
		return view.NewJoinToken{}, err
	}
	return view.NewJoinToken{JoinToken: joinToken(changed.Token), Token: token, Required: t.required}, nil
}

// JoinTokens returns the one-time tokens that this node knows, by id. Tokens that have expired are among them for a
// while.
func (t *Tokens) JoinTokens() []view.JoinToken {
	var tokens []view.JoinToken
	for _, token := range t.replica.State().JoinTokens {
		tokens = append(tokens, joinToken(token))
	}
	return tokens
}

// RemoveJoinToken removes a one-time token, and reports whether there was one; errors are those of NewJoinToken.
func (t *Tokens) RemoveJoinToken(ctx context.Context, id string) (existed bool, err error) {
	changed, err := t.replica.Change(ctx, &clusterpb.ControlChange{Entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_RemoveJoinToken{RemoveJoinToken: &clusterpb.RemoveJoinToken{Id: id}},
	}})
	return changed.GetExisted(), err
}

func joinToken(t *clusterpb.JoinToken) view.JoinToken {
	token := view.JoinToken{
		ID: t.GetId(), Created: time.UnixMilli(t.GetCreatedMs()).UTC(), Expires: time.UnixMilli(t.GetExpiresMs()).UTC(),
		UsedBy: t.GetUsedBy(), UsedName: t.GetUsedName(),
	}
	if t.GetUsedMs() != 0 {
		token.Used = time.UnixMilli(t.UsedMs).UTC()
	}
	return token
}
