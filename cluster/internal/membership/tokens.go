package membership

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
)

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
