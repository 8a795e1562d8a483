package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestDevBeginsEmpty checks that a node in dev mode refuses a folder with data: its clock would go back.
func TestDevBeginsEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cfg := DevConfig(dir)
	assert.Equal(t, cfg.Validate(), nil)
	assert.NoError(t, os.Mkdir(dir, 0o700))
	assert.Equal(t, cfg.Validate(), nil)
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "some"), nil, 0o600))
	var setting *SettingError
	if err := cfg.Validate(); !errors.As(err, &setting) || setting.Setting != "dev" {
		t.Error(err)
	}
}
