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

// ErrTooManyTokens refuses a token beyond MaxTokens. Its text is for the caller.
var ErrTooManyTokens = &task.FieldError{
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

// AddToken adds the token with this hash, which one new node may use within its life. It returns the token. A token
// that is there already stays as it is. Errors are those of SetQueue, with ErrTooManyTokens.
func (g *Group) AddToken(ctx context.Context, hash []byte, life time.Duration) (*clusterpb.JoinToken, error) {
	if len(hash) != sha256.Size || life < MinTokenLife || life > MaxTokenLife {
		return nil, fmt.Errorf("%w: a hash of %d bytes, and a life of %v", ErrRefused, len(hash), life)
	}
	now := g.cfg.Clock()
	token := &clusterpb.JoinToken{
		Id: tokenID(hash), Hash: hash, CreatedMs: now.UnixMilli(), ExpiresMs: now.Add(life).UnixMilli(),
	}
	_, err := g.propose(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_AddJoinToken{AddJoinToken: &clusterpb.AddJoinToken{Token: token}},
	})
	if err != nil {
		return nil, err
	}
	return Token(g.State(), token.Id), nil
}

// RemoveToken removes a token. It returns the token, or nil if there was none.
func (g *Group) RemoveToken(ctx context.Context, id string) (*clusterpb.JoinToken, error) {
	token := Token(g.State(), id)
	_, err := g.propose(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_RemoveJoinToken{RemoveJoinToken: &clusterpb.RemoveJoinToken{Id: id}},
	})
	return token, err
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
