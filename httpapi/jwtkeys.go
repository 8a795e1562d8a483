package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/internal/contract"
)

// JWTKeys are the keys by which the cluster signs the tokens of webhooks.
type JWTKeys interface {
	// JWTKeySet returns the public keys as a JSON Web Key Set (RFC 7517), or nil while this node knows none.
	JWTKeySet(ctx context.Context) ([]byte, error)

	// RotateJWTKeys makes newer keys. The present ones stay for the overlap; 0 ends them at once. It returns all keys in
	// the order of their making. The error is a *task.FieldError for an overlap that is out of range.
	RotateJWTKeys(ctx context.Context, overlap time.Duration) ([]view.JWTKey, error)
}

// jwtKeyService answers the calls about the keys of tokens.
type jwtKeyService struct {
	*core
	backend JWTKeys
}

// keySet answers the public keys to anyone. Receivers may keep them for a part of the shortest overlap.
func (s *jwtKeyService) keySet(c echo.Context) error {
	set, err := s.backend.JWTKeySet(c.Request().Context())
	switch {
	case err != nil:
		return err
	case set == nil:
		return &problem{kind: notReady, detail: "this node does not know the keys of tokens yet", retryAfter: 1}
	}
	c.Response().Header().Set("Cache-Control", "public, max-age=300")
	return c.JSONBlob(http.StatusOK, append(set, '\n'))
}

// usualJWTOverlap is how long the older keys of tokens stay beside newer ones.
const usualJWTOverlap = time.Hour

// rotate makes newer keys of tokens.
func (s *jwtKeyService) rotate(c echo.Context) error {
	overlap, err := bodyOf(s.core, c, func(data []byte) (time.Duration, error) {
		overlap := usualJWTOverlap
		err := contract.Members{"overlap": contract.Into(&overlap, (*contract.Reader).Duration)}.Optional(data)
		return overlap, err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	keys, err := s.backend.RotateJWTKeys(ctx, overlap)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, map[string][]view.JWTKey{"keys": keys})
}
