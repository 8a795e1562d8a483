package zone

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

//go:embed zoneinfo.zip
var archive []byte

//go:embed version.txt
var versionText string

// Version is the release of the embedded database.
var Version, _, _ = strings.Cut(versionText, "\n")

// UnknownError reports a name that the embedded database does not have.
type UnknownError struct {
	Name    string
	Nearest string // the name that differs only in the case of letters; empty: none
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("%q is no time zone of the IANA database %s", clip(e.Name), Version)
	if e.Nearest != "" {
		text += fmt.Sprintf(" (did you mean %s?)", e.Nearest)
	}
	return text
}

// clip shortens a caller's text for a message.
func clip(text string) string {
	const most = 64
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// directory opens the archive once.
var directory = sync.OnceValues(func() (map[string]*zip.File, error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("zone: embedded archive: %w", err)
	}
	files := make(map[string]*zip.File, len(r.File))
	for _, f := range r.File {
		if !f.FileInfo().IsDir() {
			files[f.Name] = f
		}
	}
	return files, nil
})

// loaded keeps the zones that were asked for, by name. It holds at most the names of the archive, about 600.
var loaded sync.Map

// Load returns the zone of a name. Names are case-sensitive. The error is an UnknownError if the database does not
// have the name. The empty name and "Local" are unknown, unlike in time.LoadLocation.
func Load(name string) (*time.Location, error) {
	if name == "UTC" {
		return time.UTC, nil
	}
	if l, ok := loaded.Load(name); ok {
		return l.(*time.Location), nil
	}
	files, err := directory()
	if err != nil {
		return nil, err
	}
	f := files[name]
	if f == nil {
		return nil, &UnknownError{Name: name, Nearest: nearest(files, name)}
	}
	data, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("zone: %s in the embedded archive: %w", name, err)
	}
	l, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("zone: %s in the embedded archive: %w", name, err)
	}
	kept, _ := loaded.LoadOrStore(name, l)
	return kept.(*time.Location), nil
}

func read(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // closing a reader of memory cannot fail
	return io.ReadAll(r)
}

func nearest(files map[string]*zip.File, name string) string {
	for known := range files {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return ""
}
