package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// Write writes results.json, RESULTS.md and the pictures into a folder, and makes the folder if it is missing.
func (r *Run) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	var tables bytes.Buffer
	if err := r.Markdown(&tables); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "results.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "RESULTS.md"), tables.Bytes(), 0o644),
		r.writePictures(dir),
	)
}

func (r *Run) writePictures(dir string) error {
	for _, t := range tables {
		if t.picture == "" {
			continue
		}
		if picture := r.svg(t); picture != "" {
			if err := os.WriteFile(filepath.Join(dir, t.picture+".svg"), []byte(picture), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
