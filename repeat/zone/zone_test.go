package zone_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/zone"
)

// The version belongs to the archive: neither changes without the other.
func TestVersionBelongsToArchive(t *testing.T) {
	archive, err := os.ReadFile("zoneinfo.zip")
	assert.NoError(t, err)
	text, err := os.ReadFile("version.txt")
	assert.NoError(t, err)
	sum := sha256.Sum256(archive)
	want := zone.Version + "\n" + hex.EncodeToString(sum[:]) + "\n"
	if string(text) != want {
		t.Errorf("version.txt is %q, and the archive is that of %q: run make tzdata", text, want)
	}
	if len(zone.Version) != len("2025c") || !strings.HasPrefix(zone.Version, "20") {
		t.Errorf("the version is %q", zone.Version)
	}
}

// The zone files of the machine have no influence: here the environment leads to an empty folder, and to a local zone.
func TestMachineHasNoInfluence(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir())
	t.Setenv("TZ", "Asia/Tokyo")
	l, err := zone.Load("Europe/Berlin")
	assert.NoError(t, err)
	_, offset := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).In(l).Zone()
	if offset != 2*3600 {
		t.Errorf("the offset of July in Berlin is %d s", offset)
	}
	again, err := zone.Load("Europe/Berlin")
	if err != nil || again != l {
		t.Errorf("a second call made a second zone: %v", err)
	}
}

func TestUnknownNames(t *testing.T) {
	for name, nearest := range map[string]string{
		"": "", "Local": "", "europe/berlin": "Europe/Berlin", "utc": "UTC", "Europe/": "", "../etc/passwd": "",
		"CET-1CEST": "", "+02:00": "", "Europe": "", strings.Repeat("x", 1000): "",
	} {
		_, err := zone.Load(name)
		var unknown *zone.UnknownError
		if !errors.As(err, &unknown) || unknown.Nearest != nearest {
			t.Errorf("%q: %v, want the nearest %q", name, err, nearest)
		}
		if err != nil && len(err.Error()) > 160 {
			t.Errorf("the error for %q has %d bytes", name, len(err.Error()))
		}
	}
}
