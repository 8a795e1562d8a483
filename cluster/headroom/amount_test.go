package headroom

import (
	"strings"
	"testing"
)

func TestAmounts(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		text  string
		of10G uint64
		says  string
	}{
		{"0", 0, "0B"},
		{"0%", 0, "0B"},
		{"5%", gib / 2, "5%"},
		{"12.5%", 1280 << 20, "12.5%"},
		{"256MiB", 256 << 20, "256MiB"},
		{"1.5GiB", 1536 << 20, "1.5GiB"},
		{"2GB", 2e9, "1.9GiB"},
		{"4096", 4096, "4KiB"},
		{"100B", 100, "100B"},
		{"2PiB", 2 << 50, "2PiB"},
	} {
		a, err := ParseAmount(tt.text)
		if err != nil || a.Of(10*gib) != tt.of10G || a.String() != tt.says {
			t.Errorf("%q: %d, %q, %v; want %d, %q", tt.text, a.Of(10*gib), a, err, tt.of10G, tt.says)
		}
	}
	for _, tt := range []struct{ got, want string }{
		{FormatBytes(-1), "0B"}, {FormatBytes(1023.4), "1023B"}, {FormatBytes(uint64(1536)), "1.5KiB"},
		{FormatBytes(int64(3 << 50)), "3PiB"}, {FormatBytes(2048.0 * (1 << 50)), "2048PiB"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
	if n, err := ParseBytes("1.5MiB"); n != 3<<19 || err != nil {
		t.Errorf("1.5MiB: %d, %v", n, err)
	}
	for _, text := range []string{"", "much", "5%", "0%"} {
		if n, err := ParseBytes(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %d bytes, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "much", "-1", "100%", "-5%", "5 %", "NaN", "NaN%", "1e30", "MiB", "%", "1XiB", "Inf"} {
		if a, err := ParseAmount(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
}
