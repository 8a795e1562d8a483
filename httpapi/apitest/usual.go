package apitest

// The lists have few ids and queues, so that calls meet existing tasks; the instants and durations are valid, and some
// lie at a limit.
var (
	names     = []string{"a", "b", "c", "order-1042:close", "Z~.", "0"}
	durations = []string{"0s", "1ms", "500ms", "1h30m", "48h", "7d", "30s", "36500d", "1.5h"}
	keys      = []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14"}
	instants  = []string{
		"2026-11-21T10:00:00.000Z", "2026-11-21T10:00:00.0001+05:30", "1970-01-01T00:00:00Z", "2100-02-29T00:00:00Z",
		"2099-12-31T23:59:60Z",
	}
)

// usual holds usual values of fields by name.
var usual = map[string][]string{
	"id": names, "queue": names[:3], "prefix": {"", "a", "order-"}, "label": {"tenant:acme", "a:", "x:y:z"},
	"fire_at": instants, "due_before": instants, "no_later_than": {"1h", instants[0]},
	"delay": durations, "jitter": durations, "expires_after": durations,
	"min_backoff": durations, "max_backoff": durations, "keep_done": durations, "keep_dead": durations,
	"by":      durations,
	"timeout": {"1s", "15s", "10m", "1ms"},
	"lease":   {"100ms", "30s", "12h"}, "wait": {"0s", "1ms", "5ms"},
	"url":              {"https://shop.example/close", "http://127.0.0.1:9000/", "nats://n:4222/subject", "ftp://x/"},
	"content_type":     {"application/json", "text/plain; charset=utf-8"},
	"payload_base64":   {"", "/+8=", "aGVsbG8="},
	"Idempotency-Key":  keys,
	"key":              keys,
	"If-Match":         {"*", `"1"`, `"2", "7"`, `W/"1"`, "7"},
	"If-None-Match":    {"*"},
	"state":            {"scheduled", "ready", "dead", "scheduled,dead"},
	"cursor":           {"", "AAAA", "MTI"},
	"include":          {"payload"},
	"receipt":          {"AAAA", "bm9uZQ"},
	"ack":              {"AAAA"},
	"release":          {"AAAA"},
	"reason":           {"", "no"},
	"slots":            {"0-511", "7,9-11", "4095"},
	"secrets":          {"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},
	"value":            {"1", "acme"},
	"ns":               {"a", "b", "new"},
	"namespace":        {"a", "b", "*"},
	"queues":           {"a", "order*"},
	"ids":              {"b", "order-*"},
	"overlap":          {"0s", "24h", "30d"},
	"expires_at":       {"2100-02-28T00:00:00Z", instants[2]},
	"consistency":      {"stale"},
	"cron":             {"@daily", "*/5 * * * *", "0 30 2 L-3W * ?", "0 9 * * 5#3", "0 25 * * *"},
	"every":            {"100ms", "15m", "7d"},
	"time_zone":        {"UTC", "Europe/Berlin", "Mars/Olympus"},
	"except":           {"2026-12-25", "2026-12-24/2027-01-01", instants[0], "* * * * SUN"},
	"anchor":           instants[:2],
	"start":            instants[:2],
	"end":              instants[3:4],
	"x-forwarded-host": {"h"},
	"note":             {"", "until the move"},
	"from":             {"2026-11-21T00:00:00Z", "2026-11-20T23:00:00+01:00"},
	"to":               {"2026-11-21T09:00:00Z", instants[3]},
	"misfire_window":   durations,
}

// odd lists strings that often break programs.
var odd = []string{
	"", " ", ".", "..", "%00", "\x00", "\n", "a/b", "-", "NaN", "null", "1e999", "ſ", "e\u0301", "\u202e", "\ufeff",
	"<script>", "'; --", "{}", "99999999999999999999h", "-1s", "9999-12-31T23:59:59.999999999Z", "0000-00-00T00:00:00Z",
}
