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

// The status of an error tells whether the registration was refused.
func TestRefusalStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code codes.Code
	}{
		{&task.ImpossibleError{Reason: "the token has expired"}, codes.PermissionDenied},
		{fmt.Errorf("%w: too late", task.ErrUnknown), codes.Unavailable},
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
	r := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, step := range []struct {
		err  error
		says string
	}{
		{status.Error(codes.Unavailable, "nothing listens"), ""},
		{status.Error(codes.PermissionDenied, "a new node needs a token"), "a new node needs a token"},
		{status.Error(codes.PermissionDenied, "a new node needs a token"), "a new node needs a token"},
		{status.Error(codes.Unavailable, "nothing listens"), "a new node needs a token"},
		{&task.ImpossibleError{Reason: "the token is unknown"}, "the token is unknown"},
		{fmt.Errorf("%w: it is empty", errTokenFile), "it is empty"},
		{nil, ""},
	} {
		r.noteRefusal(step.err)
		if err := r.Refused(); (err != nil) != (step.says != "") || err != nil && !strings.HasSuffix(err.Error(), step.says) {
			t.Errorf("after %v: %v, want %q", step.err, err, step.says)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 3 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}
