package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
)

// Handler returns middleware that passes verified requests to next and refuses all others. A verified request keeps its
// body, and FromContext finds its Delivery. Refusals are answered with
//
//   - 400 if the request is not a delivery,
//   - 401 if the signature or the timestamp is wrong,
//   - 409 if the sender has been superseded,
//   - 413 if the body is too large,
//   - 503 if the fence cannot be checked now.
//
// Belfry repeats refused attempts, except those of a superseded sender, which are over already.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, v.cfg.MaxBody))
		if err != nil {
			refuse(w, unread(err))
			return
		}
		d, err := v.Verify(r.Context(), r.Header, body)
		if err != nil {
			refuse(w, err)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), contextKey{}, d))
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

type contextKey struct{}

// FromContext returns the delivery that Handler verified, or nil if there is none.
func FromContext(ctx context.Context) *Delivery {
	d, _ := ctx.Value(contextKey{}).(*Delivery)
	return d
}

var (
	errTooLarge = errors.New("the body is too large")
	errUnread   = errors.New("the body broke off")
)

func unread(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errTooLarge
	}
	return errUnread
}

// refuse answers with the reason, which becomes the task's last error. It does not show the sender an error of a
// Fences.
func refuse(w http.ResponseWriter, err error) {
	status, text := http.StatusServiceUnavailable, "the fence cannot be checked now"
	for _, known := range []struct {
		err    error
		status int
	}{
		{ErrMalformed, http.StatusBadRequest}, {errUnread, http.StatusBadRequest}, {ErrSignature, http.StatusUnauthorized},
		{ErrTimestamp, http.StatusUnauthorized}, {ErrStale, http.StatusConflict},
		{errTooLarge, http.StatusRequestEntityTooLarge},
	} {
		if errors.Is(err, known.err) {
			status, text = known.status, err.Error()
			break
		}
	}
	http.Error(w, text, status)
}
