package membership

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
)

func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if token, err := readToken(""); token != "" || err != nil {
		t.Errorf("without a file: %q, %v", token, err)
	}
	if _, err := readToken(path); !errors.Is(err, errTokenFile) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	token := control.NewToken()
	for content, want := range map[string]string{token + "\r\n": token, token: token, "": "", token[1:]: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readToken(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), path) || content != "" && strings.Contains(err.Error(), content)) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// The status of an error keeps the kind of the error, and that of another node is passed on.
func TestRefusalStatus(t *testing.T) {
	refused := status.Error(codes.PermissionDenied, "the token has expired")
	for _, tt := range []struct {
		err  error
		code codes.Code
	}{
		{fmt.Errorf("%w: %w", control.ErrRefused, control.ErrTooManyTokens), codes.ResourceExhausted},
		{fmt.Errorf("%w: %w", control.ErrRefused, control.ErrNotAdmitted), codes.PermissionDenied},
		{&control.BehindError{Needed: 2}, codes.FailedPrecondition},
		{refused, codes.PermissionDenied},
		{&task.NotLeaderError{}, codes.Unavailable},
	} {
		if got := RefusalStatus(tt.err); status.Code(got) != tt.code {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.code)
		}
	}
}

// A refusal lasts until the node is let in, also while other nodes cannot be reached.
func TestRefusalLasts(t *testing.T) {
	var log strings.Builder
	r := NewRegistrar(RegistrarConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, step := range []struct {
		err  error
		says string
	}{
		{status.Error(codes.Unavailable, "nothing listens"), ""},
		{status.Error(codes.PermissionDenied, "a new node needs a token"), "a new node needs a token"},
		{status.Error(codes.PermissionDenied, "a new node needs a token"), "a new node needs a token"},
		{status.Error(codes.Unavailable, "nothing listens"), "a new node needs a token"},
		{fmt.Errorf("%w: it is empty", errTokenFile), "it is empty"},
		{nil, ""},
	} {
		r.noteRefusal(step.err)
		if err := r.refusal(); (err != nil) != (step.says != "") || err != nil && !strings.HasSuffix(err.Error(), step.says) {
			t.Errorf("after %v: %v, want %q", step.err, err, step.says)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}
